"""SentencePiece-style BPE, word by word: each word is encoded once by Hugging Face's engine, then looked up.

Such a tokenizer writes a space as ``▁`` and merges the whole text at once. If no token has a ``▁`` after another
character, no merge crosses the position before a ``▁``, so the text consists of independent words::

    the quick  fox    ▁the▁quick▁▁fox    ▁the  ▁quick  ▁▁fox
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.tokenizers.encoder import Encoded, Encoder, concatenated
from ft_assets.workers.tokenizers.hugging_face import build, forget_specials, marked_places

_SPACE = "▁"
# A word without a space before it; no encoded text contains the character.
_BARE = "\ufdd0"
_WORD = re.compile(f"{_SPACE}*[^{_SPACE}]+|{_SPACE}+")
_CROSSING = re.compile(f"[^{_SPACE}]{_SPACE}")
_REMEMBERED, _LONG = 1 << 18, 64
_PREPEND = {"type": "Prepend", "prepend": _SPACE}
_REPLACE = {"type": "Replace", "pattern": {"String": " "}, "content": _SPACE}


class NotWords(Exception):
    """The tokenizer is not known to be exact word by word; the message gives the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Words:
    """How such a tokenizer splits text.

    Args:
        description: its tokenizer.json for single words: without control tokens, and without word splitting.
        doubled: whether the leading space is added even to text that begins with one.
        inside, opening: whether a segment inside a document, or its first one, gets a leading space.
    """

    description: dict[str, Any]
    doubled: bool
    inside: bool
    opening: bool

    def normalized(self, text: str, *, opening: bool) -> str:
        """``text`` as the model gets it."""
        spaced = text.replace(" ", _SPACE)
        wanted = self.opening if opening else self.inside
        return _SPACE + spaced if wanted and (self.doubled or not spaced.startswith(_SPACE)) else spaced


def words_of(description: Mapping[str, Any], specials: Mapping[str, int]) -> Words:
    """How the tokenizer described by ``description`` (its tokenizer.json) splits words.

    Args:
        specials: its control tokens and their ids.

    Raises NotWords, with the reason.
    """
    own = json.loads(json.dumps(description))
    forget_specials(own, dict(specials))
    model = own["model"]
    if model.get("type") != "BPE":
        raise NotWords(f"its model is {model.get('type')}, not BPE")
    if model.get("dropout"):
        raise NotWords("it merges at random (dropout)")
    if model.get("ignore_merges") or model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise NotWords("its model looks at where a word begins or ends")
    if not model.get("byte_fallback") or any(f"<0x{byte:02X}>" not in model["vocab"] for byte in range(256)):
        raise NotWords("it has no tokens for single bytes")
    if any(not token["special"] for token in description["added_tokens"]):
        raise NotWords("it has added tokens that are no control tokens")
    hidden = set(specials)
    if any(_CROSSING.search(piece) for piece in description["model"]["vocab"] if piece not in hidden):
        raise NotWords("it has tokens that go over from one word to the next")
    doubled, inside, opening = _spacing(own.get("normalizer"), own.get("pre_tokenizer"))
    own["normalizer"] = own["pre_tokenizer"] = None
    return Words(description=own, doubled=doubled, inside=inside, opening=opening)


class WordEncoder:
    """``Encoder`` that caches words.

    Args:
        other: creates the engine for the few texts that this one leaves out.
    """

    def __init__(self, words: Words, other: Callable[[], Encoder]) -> None:
        self._words, self._make_other = words, other
        self._other: Encoder | None = None
        self._tokenizer = build(words.description)
        self._known = _Known(self._tokenizer)

    def encode(
        self, segments: Sequence[str], learned: Sequence[Sequence[Span]], opening: Collection[int] = ()
    ) -> Encoded:
        first = set(opening)
        odd = [number for number, text in enumerate(segments) if _SPACE in text or _BARE in text]
        left_out = set(odd)
        texts = [
            "" if number in left_out else self._words.normalized(text, opening=number in first) if text else ""
            for number, text in enumerate(segments)
        ]
        # Raises UnicodeEncodeError for a lone surrogate; the tokenizer's own error would be misleading.
        for text in segments:
            if not text.isascii():
                text.encode()
        keys = [_keys(text) for text in texts]
        pairs = [
            self._pair(own, text, segment, spans)
            for own, text, segment, spans in zip(keys, texts, segments, learned, strict=True)
        ]
        if odd:
            self._other = self._other or self._make_other()
            rest = self._other.encode(
                [segments[number] for number in odd],
                [learned[number] for number in odd],
                [place for place, number in enumerate(odd) if number in first],
            )
            for number, pair in zip(odd, rest.pairs(), strict=True):
                pairs[number] = pair
        # The number of words is unlimited.
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        return concatenated(pairs)

    def _pair(
        self, keys: list[str], text: str, segment: str, spans: Sequence[Span]
    ) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
        ids = np.frombuffer(b"".join(map(self._known.__getitem__, keys)), np.int32)
        if not spans or not keys:
            return ids, np.zeros(len(ids), np.bool_)
        if len(spans) == 1 and spans[0][0] <= 0 and spans[0][1] >= len(segment):
            return ids, np.ones(len(ids), np.bool_)
        # The segment's characters come after the added leading space.
        shift = len(text) - len(segment)
        counts = np.fromiter((len(self._known[key]) >> 2 for key in keys), np.int64, len(keys))
        tokens = offsets_of(counts)
        names = [_word(key) for key in keys]
        ends = np.cumsum(np.fromiter(map(len, names), np.int64, len(names)))
        marks = np.zeros(len(ids), np.bool_)
        for start, end in spans:
            if start >= end:
                continue
            low, high = (start + shift if start else 0), end + shift
            begin = int(np.searchsorted(ends, low, side="right"))
            stop = int(np.searchsorted(ends, high, side="left")) + 1
            marks[tokens[begin] : tokens[stop]] = True
            # The first and the last word may be partly learned.
            for word in {begin, stop - 1}:
                offset = int(ends[word]) - len(names[word])
                if low > offset or high < ends[word]:
                    marks[tokens[word] : tokens[word + 1]] = self._partly(
                        names[word], [(each[0] + shift if each[0] else 0, each[1] + shift) for each in spans], offset
                    )
        return ids, marks

    def _partly(self, word: str, spans: Sequence[Span], offset: int) -> NDArray[np.bool_]:
        """Which tokens of a word, ``offset`` characters after the text's start, overlap one of the spans."""
        encoding = self._tokenizer.encode(word, add_special_tokens=False)
        return marked_places(encoding.offsets, [(start - offset, end - offset) for start, end in spans])


class _Known(dict[str, bytes]):
    """The ids of words as the bytes of int32; missing words are encoded.

    A key that contains a space, or is marked as bare, is the word itself; any other is the word after one space.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__()
        self._tokenizer = tokenizer

    def __missing__(self, key: str) -> bytes:
        ids = np.array(self._tokenizer.encode(_word(key), add_special_tokens=False).ids, np.int32).tobytes()
        # Long words rarely recur.
        if len(key) <= _LONG:
            self[key] = ids
        return ids


def _keys(text: str) -> list[str]:
    """The words of a normalized text as keys."""
    if not text:
        return []
    if _SPACE * 2 in text:
        return [word if _SPACE in word else _BARE + word for word in _WORD.findall(text)]
    keys = text.split(_SPACE)
    if keys[0]:
        keys[0] = _BARE + keys[0]
    else:
        del keys[0]
    return keys


def _word(key: str) -> str:
    """The word of a key."""
    if key.startswith(_BARE):
        return key[1:]
    return key if _SPACE in key else _SPACE + key


def _spacing(normalizer: Any, pre_tokenizer: Any) -> tuple[bool, bool, bool]:
    """``Words.doubled``, ``inside`` and ``opening``. Raises NotWords for anything unknown."""
    parts = normalizer["normalizers"] if normalizer and normalizer["type"] == "Sequence" else [normalizer]
    harmless = pre_tokenizer is None or (
        pre_tokenizer["type"] == "Split" and pre_tokenizer["pattern"] == {"String": " "}
    )
    if parts == [_PREPEND, _REPLACE] and harmless:
        return True, True, True
    if parts == [_REPLACE] and harmless:
        # No leading space is added, and no space is left to split at.
        return False, False, False
    if (
        parts == [None]
        and pre_tokenizer
        and pre_tokenizer["type"] == "Metaspace"
        and pre_tokenizer.get("split") is False
    ):
        scheme = pre_tokenizer.get("prepend_scheme")
        if pre_tokenizer["replacement"] == _SPACE and scheme in ("always", "first", "never"):
            return False, scheme == "always", scheme != "never"
    raise NotWords("it reads spaces in a way that is not known here")
