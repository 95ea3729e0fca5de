"""The base's tokenizer, read without transformers, and its control tokens.

The template writes control tokens, messages only text: a control token that a message spells is encoded as the
characters it is written with.
"""

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Tokenizer, models

from ft_assets.packs.encoding.encoder import Encoder
from ft_assets.packs.encoding.hugging_face import HuggingFaceEncoder
from ft_assets.packs.encoding.segments import Cuts, DocumentEncoder
from ft_assets.packs.templates.template import Rendering, Span
from ft_resources.errors import BadBase

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json")
"""Files of a base that packing reads; the first and the last must be there."""

_NEVER = re.compile(r"(?!)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Tokens:
    """An encoded rendering: ``ids`` int32 [tokens], ``learned`` bool [tokens]."""

    ids: NDArray[np.int32]
    learned: NDArray[np.bool_]


class ChatTokenizer:
    """A tokenizer with the names of its control tokens.

    Args:
        named: the special tokens that templates refer to (``bos_token`` …).

    ``special_ids`` are the control tokens' texts and ids, ``control`` matches them, and ``control_ids`` are those
    ids without the token for unknown text, which ordinary text produces. ``swallowing`` says by id whether a control
    token takes the white space before it and behind it with it.
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
        specials = _specials(tokenizer)
        self.special_ids = {text: number for text, (number, _) in specials.items()}
        self.control = _any_of({text: token for text, (_, token) in specials.items()})
        self.swallowing = {number: (token.lstrip, token.rstrip) for number, token in specials.values()}
        unknown = {named.get("unk_token"), _unknown(tokenizer)}
        ordinary = unknown - {named.get("eos_token"), named.get("bos_token")}
        self.control_ids = frozenset(number for text, number in self.special_ids.items() if text not in ordinary)

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
        return cls(tokenizer, _named_tokens(tokenizer_settings(folder)))

    def token_id(self, name: str) -> int | None:
        """The id of a named special token such as ``bos_token``, or None."""
        content = self.named.get(name)
        return self.tokenizer.token_to_id(content) if content else None

    def encode(self, renderings: Sequence[Rendering], learned: Sequence[Sequence[Span]]) -> list[Tokens]:
        """Encode renderings and mark the tokens that lie in the given spans of their texts, even partly.

        Raises BadData for text without a UTF-8 form.
        """
        cuts = Cuts()
        for rendering, spans in zip(renderings, learned, strict=True):
            self.cut(cuts, rendering, spans)
        encoded = self._documents.encode(cuts)
        return [
            Tokens(ids=encoded.ids[start:end], learned=encoded.learned[start:end])
            for start, end in itertools.pairwise(encoded.offsets.tolist())
        ]

    def cut(self, cuts: Cuts, rendering: Rendering, learned: Sequence[Span]) -> None:
        """Add a rendering, of which ``learned`` are learned, to ``cuts`` as one more document."""
        cuts.add(rendering.text, self.template_tokens(rendering), self.special_ids, learned)

    def documents(self, encoder: Encoder) -> DocumentEncoder:
        """What encodes whole documents of this tokenizer by an engine for it."""
        return DocumentEncoder(encoder, control_ids=self.control_ids, swallowing=self.swallowing)

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
        return sum(self.special_ids[text] in self.control_ids for text in written)

    def heads_in(self, text: str) -> list[str]:
        """With what the control tokens begin that ``text`` could spell; a quick answer, mostly none."""
        return [head for head in self._heads if head in text]

    def spells(self, text: str) -> bool:
        """Whether a text spells one of ``control_ids``."""
        found = self.control.finditer(text) if self.heads_in(text) else ()
        return any(self.special_ids[each.group()] in self.control_ids for each in found)

    @cached_property
    def _heads(self) -> list[str]:
        # They are few and quickly searched for.
        return sorted({name[:2] for name in self.special_ids})

    @cached_property
    def _documents(self) -> DocumentEncoder:
        return self.documents(HuggingFaceEncoder(self.tokenizer))


def tokenizer_settings(folder: Path) -> dict[str, Any]:
    """The base's tokenizer_config.json, empty where there is none. Raises BadBase if it is not JSON."""
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


def _unknown(tokenizer: Tokenizer) -> str | None:
    """The token for unknown text."""
    if not isinstance(tokenizer.model, models.Unigram):
        name: str | None = getattr(tokenizer.model, "unk_token", None)
        return name
    # Unigram has it by number, and tells it to nobody.
    number = json.loads(tokenizer.to_str())["model"]["unk_id"]
    return None if number is None else tokenizer.id_to_token(number)


def _specials(tokenizer: Tokenizer) -> dict[str, tuple[int, AddedToken]]:
    """Id and description of every special token, by its text."""
    found = tokenizer.get_added_tokens_decoder().items()
    return {token.content: (number, token) for number, token in found if token.special}


def _any_of(tokens: dict[str, AddedToken]) -> re.Pattern[str]:
    """Matches the tokens' texts, the longest first; a single word only where no letter or digit touches it."""
    longest_first = sorted(tokens, key=lambda text: (-len(text), text))
    patterns = [
        rf"(?<!\w){re.escape(text)}(?!\w)" if tokens[text].single_word else re.escape(text) for text in longest_first
    ]
    return re.compile("|".join(patterns)) if patterns else _NEVER


def _named_tokens(settings: dict[str, Any]) -> dict[str, str]:
    """``bos_token`` and the like; older files wrap the text in a mapping."""
    named = {}
    for key, value in settings.items():
        content = value.get("content") if isinstance(value, dict) else value
        if key.endswith("_token") and isinstance(content, str):
            named[key] = content
    return named
