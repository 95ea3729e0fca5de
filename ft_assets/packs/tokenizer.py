"""The base's tokenizer, read without transformers, and made safe against control tokens spelled by users.

The template writes control tokens, messages only text. Where a message spells a control token, the rendering is
encoded by a second tokenizer in which the control tokens have private names: the template's own are renamed in the
text, the user's are then nothing but characters. Everything else (pre-tokenizer, merges, ids) is the same.
"""

import bisect
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Encoding, Tokenizer

from ft_assets.packs.template import ChatTemplate, Rendering, Span
from ft_resources.errors import BadBase, BadData

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json")
"""Files of a base that packing reads; the first and the last must be there."""

_NEVER = re.compile(r"(?!)")
# Blocks of a private use plane; the first one that a text does not touch names the control tokens in it.
_PRIVATE_BLOCKS = range(0xF0000, 0xFF000, 0x1000)


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """An encoded rendering: ``ids`` int32 [tokens], ``learned`` bool [tokens]."""

    ids: NDArray[np.int32]
    learned: NDArray[np.bool_]


class ChatTokenizer:
    """A tokenizer with the names of its control tokens.

    ``named`` are the special tokens templates refer to (``bos_token`` …), ``control`` matches each control token's
    text and ``control_ids`` are their ids, without the token for unknown text, which ordinary text produces.
    """

    def __init__(self, tokenizer: Tokenizer, named: dict[str, str]) -> None:
        tokenizer.no_truncation()
        tokenizer.no_padding()
        # Named tokens are control tokens even where tokenizer.json does not list them as such.
        known = {content for content in named.values() if tokenizer.token_to_id(content) is not None}
        tokenizer.add_special_tokens(
            [AddedToken(name, special=True, normalized=False) for name in sorted(known - set(_specials(tokenizer)))]
        )
        self.tokenizer, self.named = tokenizer, named
        self._specials = _specials(tokenizer)
        self.control = _any_of(set(self._specials))
        unknown = {named.get("unk_token"), getattr(tokenizer.model, "unk_token", None)}
        ordinary = unknown - {named.get("eos_token"), named.get("bos_token")}
        self.control_ids = frozenset(number for name, number in self._specials.items() if name not in ordinary)
        self._disguised: dict[int, Tokenizer] = {}

    @classmethod
    def load(cls, folder: Path) -> "ChatTokenizer":
        """The tokenizer in a model's folder. Raises BadBase where there is none that can be read."""
        path = folder / "tokenizer.json"
        if not path.exists():
            raise BadBase(
                "the base has no tokenizer.json",
                where="tokenizer.json",
                remedy="Convert its tokenizer (AutoTokenizer.from_pretrained(…).save_pretrained(…)) and add it again.",
            )
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:
            raise BadBase(
                f"the tokenizer cannot be read ({error})",
                where="tokenizer.json",
                remedy="Take a base with a valid one.",
            ) from error
        return cls(tokenizer, _named_tokens(_settings(folder)))

    def token_id(self, name: str) -> int | None:
        """The id of a named special token such as ``bos_token``, or None."""
        content = self.named.get(name)
        return self.tokenizer.token_to_id(content) if content else None

    def encode(self, renderings: Sequence[Rendering], learned: Sequence[list[Span]]) -> list[Tokens]:
        """Encode renderings and mark the tokens that lie in the given spans of their texts, even partly."""
        plain = [index for index, rendering in enumerate(renderings) if not rendering.quoted]
        encodings = self.tokenizer.encode_batch([renderings[index].text for index in plain], add_special_tokens=False)
        tokens = {index: _mark(encoding, learned[index]) for index, encoding in zip(plain, encodings, strict=True)}
        for index, rendering in enumerate(renderings):
            if rendering.quoted:
                tokens[index] = self._encode_quoted(rendering, learned[index])
        return [tokens[index] for index in range(len(renderings))]

    def template_tokens(self, rendering: Rendering) -> list[Span]:
        """Where the template itself, and no message, wrote a control token, in order."""
        quoted = set(rendering.quoted)
        spans, position = [], 0
        while found := self.control.search(rendering.text, position):
            if found.span() not in quoted:
                spans.append(found.span())
            position = found.end()
        return spans

    def count_control(self, rendering: Rendering) -> int:
        """How many tokens of ``control_ids`` the template itself wrote."""
        written = (rendering.text[start:end] for start, end in self.template_tokens(rendering))
        return sum(self._specials[text] in self.control_ids for text in written)

    def _encode_quoted(self, rendering: Rendering, learned: list[Span]) -> Tokens:
        block = next(
            (b for b in _PRIVATE_BLOCKS if not re.search(f"[{chr(b)}-{chr(b + 0xFFF)}]", rendering.text)), None
        )
        if block is None:
            raise BadData("the row uses every block of private characters", remedy="Remove U+F0000 to U+FEFFF.")
        names = {name: chr(block + number) for number, name in enumerate(self._specials)}
        pieces: list[str] = []
        ends, shifts = [0], [0]  # From character ends[i] of the text on, positions move left by shifts[i].
        position = 0
        for start, end in self.template_tokens(rendering):
            pieces += [rendering.text[position:start], names[rendering.text[start:end]]]
            position = end
            ends.append(end)
            shifts.append(shifts[-1] + end - start - 1)
        pieces.append(rendering.text[position:])

        def moved(place: int) -> int:
            return place - shifts[bisect.bisect_right(ends, place) - 1]

        encoding = self._disguise(block, names).encode("".join(pieces), add_special_tokens=False)
        return _mark(encoding, [(moved(start), moved(end)) for start, end in learned])

    def _disguise(self, block: int, names: dict[str, str]) -> Tokenizer:
        """This tokenizer with every control token under its private name and the same id."""
        if block not in self._disguised:
            description = json.loads(self.tokenizer.to_str())
            for token in description["added_tokens"]:
                if token["special"]:
                    token["content"] = names[token["content"]]
            model = description["model"]
            if isinstance(model["vocab"], dict):
                model["vocab"] = {names.get(piece, piece): number for piece, number in model["vocab"].items()}
            else:
                model["vocab"] = [[names.get(piece, piece), score] for piece, score in model["vocab"]]
            if model.get("unk_token") in names:
                model["unk_token"] = names[model["unk_token"]]
            if "merges" in model:
                # A merge that spells a control token would bring it back from plain text.
                model["merges"] = [pair for pair in model["merges"] if not _spells(pair, names)]
            tokenizer = Tokenizer.from_str(json.dumps(description))
            for name, private in names.items():
                assert tokenizer.token_to_id(private) == self._specials[name]
            self._disguised[block] = tokenizer
        return self._disguised[block]


def load_template(folder: Path, tokenizer: ChatTokenizer, override: str | None) -> ChatTemplate:
    """The recipe's template where it names one, else the base's. Raises BadBase where there is neither."""
    source = override if override is not None else _template_source(folder)
    if source is None:
        raise BadBase(
            "the base has no chat template",
            where="tokenizer_config.json",
            remedy="Name a Jinja file in the recipe's chat_template, or take an instruction-tuned base.",
        )
    name = "the recipe's chat_template" if override is not None else "the base's chat template"
    return ChatTemplate(source, name=name, variables=tokenizer.named, control=tokenizer.control)


def base_template(folder: Path, tokenizer: ChatTokenizer) -> ChatTemplate | None:
    """The base's own template, or None where it has none."""
    return load_template(folder, tokenizer, None) if _template_source(folder) is not None else None


def _mark(encoding: Encoding, spans: list[Span]) -> Tokens:
    """The encoding's ids, and which of its tokens lie in one of ``spans``, even partly."""
    count = len(encoding.ids)
    learned = np.zeros(count, bool)
    for start, end in spans:
        # Some characters belong to no token (spaces that a tokenizer drops), and some to several (byte fallback).
        first = next((t for c in range(start, end) if (t := encoding.char_to_token(c)) is not None), None)
        last = next((t for c in range(end - 1, start - 1, -1) if (t := encoding.char_to_token(c)) is not None), None)
        if first is None or last is None:
            continue
        while last + 1 < count and (place := encoding.token_to_chars(last + 1)) and place[0] < end:
            last += 1
        learned[first : last + 1] = True
    return Tokens(ids=np.array(encoding.ids, np.int32), learned=learned)


def _specials(tokenizer: Tokenizer) -> dict[str, int]:
    """Text and id of every special token."""
    return {token.content: number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special}


def _any_of(texts: set[str]) -> re.Pattern[str]:
    longest_first = sorted(texts, key=lambda text: (-len(text), text))
    return re.compile("|".join(map(re.escape, longest_first))) if texts else _NEVER


def _spells(pair: str | list[str], names: dict[str, str]) -> bool:
    left, right = pair.split(" ") if isinstance(pair, str) else pair
    return left in names or right in names or left + right in names


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "tokenizer_config.json"
    if not path.exists():
        return {}
    try:
        settings: dict[str, Any] = json.loads(path.read_bytes())
    except ValueError as error:
        raise BadBase(
            f"the tokenizer's settings are not valid JSON ({error})",
            where="tokenizer_config.json",
            remedy="Take a base with a valid one.",
        ) from error
    return settings


def _named_tokens(settings: dict[str, Any]) -> dict[str, str]:
    """``bos_token`` and the like; older files wrap the text in a mapping."""
    named = {}
    for key, value in settings.items():
        content = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(content, str):
            named[key] = content
    return named


def _template_source(folder: Path) -> str | None:
    """A file of its own goes before the settings, where several templates may be named; ``default`` is for chats."""
    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text(encoding="utf-8")
    template = _settings(folder).get("chat_template")
    if isinstance(template, list):
        template = {item["name"]: item["template"] for item in template}.get("default")
    return template if isinstance(template, str) else None
