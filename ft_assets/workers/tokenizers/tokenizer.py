"""The base's tokenizer, read without transformers, and its control tokens.

The template writes control tokens, messages only text: a control token spelled in a message is encoded as its
characters. The marks of thoughts are no control tokens, whatever the base calls them: rows spell them, and templates
look for them in what rows say.
"""

import json
import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, models

from ft_assets.workers.templates.rendering import Rendering, Span
from ft_assets.workers.templates.source import tokenizer_settings
from ft_assets.workers.templates.thoughts import MARKS
from ft_assets.workers.tokenizers.encoder import Encoder
from ft_assets.workers.tokenizers.hugging_face import HuggingFaceEncoder
from ft_assets.workers.tokenizers.segments import Cuts, DocumentEncoder, Tokens
from ft_resources.errors import BadBase

TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "config.json")
"""Files of a base that packing reads; the first and the last are required."""

_NEVER = re.compile(r"(?!)")


class ChatTokenizer:
    """A tokenizer with the names of its control tokens.

    Args:
        named: the special tokens that templates use (``bos_token`` …).

    ``special_ids`` are the control tokens' texts and ids, ``control`` matches them, and ``control_ids`` are those ids
    without the token for unknown text, which ordinary text produces. ``swallowing`` has by id whether a control token
    swallows the white space before it and after it.
    """

    def __init__(self, tokenizer: Tokenizer, named: dict[str, str]) -> None:
        tokenizer = _with_thoughts_as_text(tokenizer)
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
        """The tokenizer in a model's folder. Raises BadBase if none is readable."""
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

    def encode(self, rendering: Rendering, learned: Sequence[Span] = ()) -> Tokens:
        """Encode a rendering and mark the tokens that overlap the given spans of its text, even partly.

        Raises BadData for text without a UTF-8 form.
        """
        cuts = Cuts()
        self.cut(cuts, rendering, learned)
        return self._documents.encode(cuts)

    def cut(self, cuts: Cuts, rendering: Rendering, learned: Sequence[Span]) -> None:
        """Add a rendering, with its spans ``learned``, to ``cuts`` as one more document."""
        cuts.add(rendering.text, self.template_tokens(rendering), self.special_ids, learned)

    def documents(self, encoder: Encoder) -> DocumentEncoder:
        """The encoder of this tokenizer's whole documents, with a given engine."""
        return DocumentEncoder(encoder, control_ids=self.control_ids, swallowing=self.swallowing)

    def template_tokens(self, rendering: Rendering) -> list[Span]:
        """Spans of control tokens that the template, not a message, wrote, in order."""
        quoted = set(rendering.quoted)
        spans, position = [], 0
        while found := self.control.search(rendering.text, position):
            if found.span() not in quoted:
                spans.append(found.span())
            position = found.end()
        return spans

    def heads_in(self, text: str) -> list[str]:
        """The beginnings of control tokens that ``text`` could spell; a quick check, mostly empty."""
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


def _with_thoughts_as_text(tokenizer: Tokenizer) -> Tokenizer:
    """``tokenizer`` with the marks of thoughts as added tokens that any text may spell, if it has them as specials."""
    if _specials(tokenizer).keys().isdisjoint(MARKS):
        return tokenizer
    description = json.loads(tokenizer.to_str())
    for token in description["added_tokens"]:
        token["special"] &= token["content"] not in MARKS
    return Tokenizer.from_str(json.dumps(description))


def _unknown(tokenizer: Tokenizer) -> str | None:
    """The token for unknown text."""
    if not isinstance(tokenizer.model, models.Unigram):
        name: str | None = getattr(tokenizer.model, "unk_token", None)
        return name
    # Unigram has its number, but does not expose it.
    number = json.loads(tokenizer.to_str())["model"]["unk_id"]
    return None if number is None else tokenizer.id_to_token(number)


def _specials(tokenizer: Tokenizer) -> dict[str, tuple[int, AddedToken]]:
    """Id and description of every special token, by its text."""
    found = tokenizer.get_added_tokens_decoder().items()
    return {token.content: (number, token) for number, token in found if token.special}


def _any_of(tokens: dict[str, AddedToken]) -> re.Pattern[str]:
    """Matches the tokens' texts, the longest first; one with ``single_word`` only if no letter or digit is adjacent."""
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
