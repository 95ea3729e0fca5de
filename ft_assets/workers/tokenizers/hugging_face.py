"""Hugging Face's engine over segments: the tokenizer's own ids, for any tokenizer."""

import itertools
import json
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Encoding, Tokenizer

from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.tokenizers.encoder import Encoded, concatenated

# Short segments recur (``\n`` between turns, a system prompt); this many are cached.
_REMEMBERED, _SHORT = 4096, 200
_Pair = tuple[NDArray[np.int32], NDArray[np.bool_]]


class HuggingFaceEncoder:
    """``Encoder`` by the tokenizer itself, without its control tokens.

    Offsets are computed only if a learned span cuts a segment, as they are a large part of the work.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        description = json.loads(tokenizer.to_str())
        specials = {
            token.content: number for number, token in tokenizer.get_added_tokens_decoder().items() if token.special
        }
        forget_specials(description, specials)
        self._opening = build(description)
        # After a control token a segment is not at the beginning of its text, which matters to Metaspace.
        self._inner = build(description) if _keep_from_prepending(description["pre_tokenizer"]) else self._opening
        self._known: dict[tuple[str, tuple[Span, ...]], _Pair] = {}

    def encode(
        self, segments: Sequence[str], learned: Sequence[Sequence[Span]], opening: Collection[int] = ()
    ) -> Encoded:
        pairs: list[_Pair | None] = [None] * len(segments)
        first = set(opening) if self._inner is not self._opening else set()
        whole: list[int] = []
        cut: list[int] = []
        fresh: dict[int, tuple[str, tuple[Span, ...]]] = {}
        for number, (text, spans) in enumerate(zip(segments, learned, strict=True)):
            if number not in first and len(text) <= _SHORT:
                key = (text, tuple(spans))
                pairs[number] = self._known.get(key)
                if pairs[number] is not None:
                    continue
                fresh[number] = key
            covered = not spans or (len(spans) == 1 and spans[0][0] <= 0 and spans[0][1] >= len(text))
            (whole if covered else cut).append(number)
        for number, encoding in self._encode(segments, whole, first, exact=False):
            ids = np.array(encoding.ids, np.int32)
            pairs[number] = (ids, np.full(len(ids), bool(learned[number])))
        for number, encoding in self._encode(segments, cut, first, exact=True):
            pairs[number] = (np.array(encoding.ids, np.int32), _mark(encoding, learned[number], len(segments[number])))
        for number, key in itertools.islice(fresh.items(), max(_REMEMBERED - len(self._known), 0)):
            self._known[key] = pairs[number]  # type: ignore[assignment]
        return concatenated(pair for pair in pairs if pair is not None)

    def _encode(
        self, segments: Sequence[str], numbers: list[int], first: set[int], *, exact: bool
    ) -> list[tuple[int, Encoding]]:
        found: list[tuple[int, Encoding]] = []
        for tokenizer, chosen in (
            (self._inner, [number for number in numbers if number not in first]),
            (self._opening, [number for number in numbers if number in first]),
        ):
            if chosen:
                run = tokenizer.encode_batch if exact else tokenizer.encode_batch_fast
                texts = [segments[number] for number in chosen]
                try:
                    encodings = run(texts, add_special_tokens=False)
                except TypeError:
                    # Its error for a lone surrogate is misleading; this raises UnicodeEncodeError instead.
                    "".join(texts).encode()
                    raise
                found += zip(chosen, encodings, strict=True)
        return found


def _mark(encoding: Encoding, spans: Sequence[Span], length: int) -> NDArray[np.bool_]:
    """``marked`` of a text of ``length`` characters, by a few queries instead of all offsets."""
    learned = np.zeros(len(encoding), np.bool_)
    for start, end in spans:
        first = encoding.char_to_token(start)
        last = len(encoding) if end >= length else encoding.char_to_token(end)
        if first is None or last is None:
            # Characters that belong to no token.
            return marked(encoding, spans)
        # Tokens without characters come before the token with the character.
        while first > 0 and _place(encoding, first - 1) == (start, start):
            first -= 1
        while last > first and _place(encoding, last - 1)[0] >= end:
            last -= 1
        while last < len(encoding) and _place(encoding, last)[0] < end:
            last += 1
        learned[first:last] = True
    return learned


def _place(encoding: Encoding, token: int) -> Span:
    place = encoding.token_to_chars(token)
    assert place is not None
    return place


def marked(encoding: Encoding, spans: Sequence[Span]) -> NDArray[np.bool_]:
    """Which tokens overlap one of ``spans``; a token without characters belongs to the next character."""
    return marked_places(encoding.offsets, spans)


def marked_places(offsets: Sequence[Span], spans: Sequence[Span]) -> NDArray[np.bool_]:
    """``marked`` of tokens with these offsets."""
    places = np.array(offsets, np.int64).reshape(-1, 2)
    starts, ends = places[:, 0], np.maximum(places[:, 1], places[:, 0] + 1)
    learned = np.zeros(len(places), np.bool_)
    for start, end in spans:
        learned |= (starts < end) & (ends > start)
    return learned


def build(description: dict[str, Any]) -> Tokenizer:
    """The tokenizer of a tokenizer.json, for segments: nothing is truncated or added, control tokens are plain text."""
    tokenizer = Tokenizer.from_str(json.dumps(description))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.encode_special_tokens = True
    return tokenizer


def forget_specials(description: dict[str, Any], specials: dict[str, int]) -> None:
    """Make ``specials`` unreachable from text: renamed, and never merged. ``build`` disables the search for them.

    The new names contain spaces, which every pre-tokenizer splits at or rewrites.
    """
    names = {content: f"\ufdd0 {number} \ufdd1" for content, number in specials.items()}
    for token in description["added_tokens"]:
        # They keep their place, as the others' ids depend on it.
        token["content"] = names.get(token["content"], token["content"])
    # It would only trim the offsets: nothing is added around a segment.
    description["post_processor"] = None
    model = description["model"]
    vocabulary = model.get("vocab", {})
    if isinstance(vocabulary, dict):
        model["vocab"] = {names.get(piece, piece): number for piece, number in vocabulary.items()}
    else:
        model["vocab"] = [[names.get(piece, piece), score] for piece, score in vocabulary]
    if model.get("unk_token") in names:
        model["unk_token"] = names[model["unk_token"]]
    if "merges" in model:
        # A merge that spells a control token would recreate it from plain text.
        model["merges"] = [pair for pair in model["merges"] if not _spells(pair, names)]


def _spells(pair: str | list[str], names: dict[str, str]) -> bool:
    left, right = pair.split(" ") if isinstance(pair, str) else pair
    return left in names or right in names or left + right in names


def _keep_from_prepending(part: dict[str, Any] | None) -> bool:
    """Replace ``first`` by ``never`` in a pre-tokenizer's description; returns whether there was one."""
    if part is None:
        return False
    if part["type"] == "Sequence":
        # All of them must change: do not stop at the first.
        return max(list(map(_keep_from_prepending, part["pretokenizers"])), default=False)
    if part["type"] == "Metaspace" and part.get("prepend_scheme") == "first":
        part["prepend_scheme"] = "never"
        return True
    return False
