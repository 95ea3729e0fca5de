"""Recognise tokenizers that are byte-level BPE, which another engine can run with the same ids, and read their tables.

Such a tokenizer cuts text by a regular expression and merges the UTF-8 bytes of each piece, so it is fully defined by
ranks of byte strings and that expression. Anything else in its file means that it is not one of them.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

# GPT-2's pattern, which Hugging Face's ByteLevel uses if told to use an expression.
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


class NotByteLevel(Exception):
    """The tokenizer is not known to be exact in another engine; the message gives the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ByteLevel:
    """Tables of a byte-level BPE.

    Args:
        pattern: the regular expression that cuts text into pieces.
        byte_ids: int32 [256], the token of each single byte.
        merges: int32 [merges, 3], in order: ids of two neighbours and of their merged token.
        words: pieces that are one token regardless of the merges.
        added: texts that are always tokens, and their ids, the longest first.
        composed: whether text is first normalized to NFC.
    """

    pattern: str
    byte_ids: NDArray[np.int32]
    merges: NDArray[np.int32]
    words: dict[bytes, int]
    added: dict[str, int]
    composed: bool

    def names(self) -> dict[int, bytes]:
        """The bytes of each token that merges can make, in the order of the merges; single bytes come first."""
        names = {number: bytes([byte]) for byte, number in enumerate(self.byte_ids.tolist())}
        for left, right, merged in self.merges.tolist():
            if left in names and right in names:
                names.setdefault(merged, names[left] + names[right])
        return names


def byte_level(description: Mapping[str, Any], specials: Collection[str]) -> ByteLevel:
    """The tables of the tokenizer that ``description`` (its tokenizer.json) describes.

    Args:
        specials: texts of its control tokens, which no text may be encoded as.

    Raises NotByteLevel, with the reason.
    """
    model, hidden = description["model"], set(specials)
    _require_plain(model)
    composed = _composed(description.get("normalizer"))
    pattern = _pattern(description.get("pre_tokenizer"))
    letters = _letters()
    byte_ids, merges = _merges(model, letters, hidden)
    return ByteLevel(
        pattern=pattern,
        byte_ids=byte_ids,
        merges=merges,
        words=_words(model["vocab"], letters, hidden) if model.get("ignore_merges") else {},
        added=_added(description["added_tokens"], hidden, composed),
        composed=composed,
    )


def _require_plain(model: Mapping[str, Any]) -> None:
    if model.get("type") != "BPE":
        raise NotByteLevel(f"its model is {model.get('type')}, not BPE")
    if model.get("dropout"):
        raise NotByteLevel("it merges at random (dropout)")
    if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
        raise NotByteLevel("it marks where words begin or end")


def _composed(normalizer: Mapping[str, Any] | None) -> bool:
    if normalizer is None:
        return False
    if normalizer["type"] != "NFC":
        raise NotByteLevel(f"it rewrites text before ({normalizer['type']})")
    return True


def _pattern(pre_tokenizer: Mapping[str, Any] | None) -> str:
    parts = [] if pre_tokenizer is None else [pre_tokenizer]
    if parts and parts[0]["type"] == "Sequence":
        parts = list(parts[0]["pretokenizers"])
    kinds = [part["type"] for part in parts]
    if kinds not in (["ByteLevel"], ["Split", "ByteLevel"]):
        raise NotByteLevel(f"it cuts text in another way ({', '.join(kinds) or 'not at all'})")
    if parts[-1]["add_prefix_space"]:
        raise NotByteLevel("it puts a space before texts")
    if len(parts) == 1:
        if not parts[0].get("use_regex", True):
            raise NotByteLevel("it does not cut text at all")
        return GPT2
    split = parts[0]
    if parts[1].get("use_regex", True) or split["behavior"] != "Isolated" or split["invert"]:
        raise NotByteLevel("it cuts text in another way")
    if "Regex" not in split["pattern"]:
        raise NotByteLevel("it cuts text at a fixed string")
    pattern: str = split["pattern"]["Regex"]
    return pattern


def _merges(
    model: Mapping[str, Any], letters: dict[str, int], hidden: set[str]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    vocabulary: dict[str, int] = model["vocab"]
    if not vocabulary.keys() >= letters.keys() or not hidden.isdisjoint(letters):
        raise NotByteLevel("its vocabulary lacks single bytes")
    byte_ids = np.empty(256, np.int32)
    for letter, byte in letters.items():
        byte_ids[byte] = vocabulary[letter]
    pairs = [pair.split(" ") if isinstance(pair, str) else pair for pair in model["merges"]]
    if not hidden.isdisjoint(vocabulary):
        pairs = [pair for pair in pairs if hidden.isdisjoint((*pair, pair[0] + pair[1]))]
    merges = [(vocabulary[left], vocabulary[right], vocabulary[left + right]) for left, right in pairs]
    return byte_ids, np.array(merges, np.int32).reshape(-1, 3)


def _words(vocabulary: dict[str, int], letters: dict[str, int], hidden: set[str]) -> dict[bytes, int]:
    """The vocabulary by its bytes, for tokenizers that look up a piece before merging."""
    table = {ord(letter): byte for letter, byte in letters.items()}
    return {
        piece.translate(table).encode("latin-1"): number
        for piece, number in vocabulary.items()
        if piece and piece not in hidden and letters.keys() >= set(piece)
    }


def _added(tokens: list[dict[str, Any]], hidden: set[str], composed: bool) -> dict[str, int]:
    """Texts and ids of the added tokens that are not control tokens."""
    plain = [token for token in tokens if token["content"] not in hidden]
    if any(token["lstrip"] or token["rstrip"] or token["single_word"] for token in plain):
        raise NotByteLevel("its added tokens reach out for white space or want whole words")
    if len({token["normalized"] for token in plain}) > 1:
        raise NotByteLevel("its added tokens are looked for in two rounds")
    if composed and not all(token["content"].isascii() for token in plain):
        raise NotByteLevel("its added tokens are not ASCII, and it composes characters")
    if any(token["content"] in text for token in plain for text in hidden):
        raise NotByteLevel("its control tokens have added tokens in them")
    ordered = sorted(plain, key=lambda token: -len(token["content"].encode()))
    return {token["content"]: token["id"] for token in ordered}


def _letters() -> dict[str, int]:
    """GPT-2's alphabet: the letter that stands for each byte in a vocabulary."""
    shown = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    hidden = [byte for byte in range(256) if byte not in set(shown)]
    return {**{chr(byte): byte for byte in shown}, **{chr(256 + place): byte for place, byte in enumerate(hidden)}}
