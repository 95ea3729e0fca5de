"""Chat templates that others publish: TRL's, which are installed here, and those in two archives of the package index.

``public_templates.json`` has a template's digest, and what becomes of each shape with it: ``U`` for usable, else a
letter of ``REASONS``. Their texts are not kept here, as some licences forbid it. ``python -m
tests.workers.packs.templates.public`` writes the file anew; read what changed before you commit it.
"""

import hashlib
import io
import json
import os
import re
import tarfile
import tempfile
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tokenizers import AddedToken, Tokenizer

from ft_assets.workers.packs.documents.chats import Row
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import Traced, require_all_shown
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import UserError
from tests.workers.packs.templates.shapes import SHAPES, Theirs
from tests.workers.packs.templates.templates import NAMES, compiled, make_tokenizer, source
from tests.workers.packs.templates.test_skeletons import _labeller

EXPECTED = Path(__file__).with_suffix(".json").with_stem("public_templates")
REASONS = {
    "f": "itself fails on this conversation",
    "r": "refuses this conversation",
    "c": "leaves out the content",
    "t": "leaves out the definitions of the tools",
    "a": "leaves out ",
    "p": "without its own generation prompt",
    "d": "differently depending on what follows",
    "h": "asks for answers without",
    "o": "behind what follows it",
}
_TOKEN = re.compile(r"<[|｜/]?[A-Za-z0-9_▁:]+[|｜]?>|<\|[a-z_]+>|<[a-z_]+\|>|\[/?[A-Z_]{3,}\]|\]~[a-z!]*\w*\[|\[e~\[")


@dataclass(frozen=True, slots=True)
class Archive:
    """A file of the package index with templates in ``folder``."""

    package: str
    file: str
    sha256: str
    folder: str


ARCHIVES = (
    Archive(
        "axolotl",
        "axolotl-0.19.0-py3-none-any.whl",
        "f28eb3ad3709975eec4adfe13307dd980c7e7917cc43cb03f2c6f26c007135cc",
        "axolotl/utils/chat_templates/templates/",
    ),
    Archive(
        "xllamacpp",
        "xllamacpp-2026.9.11063.tar.gz",
        "37ad3d0389f1d65b68e7d341df86d55077158950a764801be94f955024afb759",
        "xllamacpp-2026.9.11063/thirdparty/llama.cpp/models/templates/",
    ),
)


def fetched(archive: Archive) -> dict[str, str]:
    """The templates of an archive by name, kept between runs by their digest. Raises OSError without the index."""
    kept = Path(tempfile.gettempdir()) / f"ft-archive-{archive.sha256}"
    if not kept.exists():
        index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
        request = urllib.request.Request(
            f"{index}/{archive.package}/", headers={"Accept": "application/vnd.pypi.simple.v1+json"}
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            files = {each["filename"]: each["url"] for each in json.load(answer)["files"]}
        with urllib.request.urlopen(files[archive.file], timeout=300) as answer:
            part = kept.with_suffix(f".{os.getpid()}")
            part.write_bytes(answer.read())
        part.rename(kept)
    data = kept.read_bytes()
    assert hashlib.sha256(data).hexdigest() == archive.sha256
    return {
        name.removeprefix(archive.folder).removesuffix(".jinja"): text
        for name, text in _members(data)
        if name.startswith(archive.folder) and name.endswith(".jinja")
    }


def _members(data: bytes) -> list[tuple[str, str]]:
    if data[:2] == b"PK":
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            return [(name, file.read(name).decode()) for name in file.namelist() if name.endswith(".jinja")]
    with tarfile.open(fileobj=io.BytesIO(data)) as file:
        found = [member for member in file if member.name.endswith(".jinja") and member.isfile()]
        return [(member.name, file.extractfile(member).read().decode()) for member in found]  # type: ignore[union-attr]


def distinct(texts: dict[str, str]) -> dict[str, str]:
    """``texts`` without those that TRL has too, or that occur earlier, but for white space around them."""
    seen = {source(name).strip() for name in NAMES}
    return {
        name: text for name, text in sorted(texts.items()) if text.strip() not in seen and not seen.add(text.strip())
    }


class Tried:
    """A template with a tokenizer that knows its control tokens, and what becomes of a shape with it."""

    def __init__(self, text: str, made: ChatTokenizer) -> None:
        names = sorted(set(_TOKEN.findall(text)) - {"<think>", "</think>", "<tools>", "</tools>"})
        special = [name for name in names if not re.match(r"</?[a-z]+>", name) or name in ("<s>", "</s>", "<bos>")]
        tokenizer = Tokenizer.from_str(made.tokenizer.to_str())
        tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
        self.tokenizer = ChatTokenizer(tokenizer, dict(made.named))
        self.template: ChatTemplate = compiled(text, self.tokenizer)
        self._labeller = _labeller(self.template, self.tokenizer, by_row=True)
        probes = self.template.probes
        self.theirs = Theirs(text, dict(made.named), probes.thoughts_field, text_arguments=probes.arguments_are_text)

    def trace(self, shape: str) -> Traced | UserError:
        """The shape as it is packed, or why it is refused."""
        chat, tools = SHAPES[shape]
        try:
            traced = self._labeller._trace(Row(messages=chat, tools=tools, prompt=0, where="row 1"))
            require_all_shown(self.template, chat, tools, traced.rendering.text, "row 1")
        except UserError as error:
            return error
        return traced

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
    texts = {"trl": {name: source(name) for name in NAMES}}
    texts |= {archive.package: distinct(fetched(archive)) for archive in ARCHIVES}
    expected = {
        f"{package}/{name}": {
            "sha256": digest(text),
            "shapes": "".join(map(Tried(text, made).letter, SHAPES)),
        }
        for package, found in texts.items()
        for name, text in found.items()
    }
    EXPECTED.write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
