"""Choose the engine that encodes a data set: the fast one only if its ids equal Hugging Face's."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ft_assets.workers.libraries import COMPILES
from ft_assets.workers.tokenizers.byte_level import ByteLevel, NotByteLevel, byte_level
from ft_assets.workers.tokenizers.compiled import PATTERNS, CompiledEncoder
from ft_assets.workers.tokenizers.encoder import Encoder, has_utf8
from ft_assets.workers.tokenizers.hugging_face import HuggingFaceEncoder
from ft_assets.workers.tokenizers.tiktoken_engine import TiktokenEncoder
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_assets.workers.tokenizers.words import NotWords, WordEncoder, words_of

Engine = Literal["compiled", "tiktoken", "words", "tokenizers"]
"""Our own compiled code, tiktoken, Hugging Face's with a word cache, or plain Hugging Face's."""

_SPREAD = 2048
_COMPARED_AT_ONCE = 512


@dataclass(frozen=True, kw_only=True, slots=True)
class EncoderChoice:
    """The engine and, for the pack's facts, one sentence why."""

    engine: Engine
    why: str


def choose_encoder(tokenizer: ChatTokenizer, texts: Iterable[str]) -> EncoderChoice:
    """A fast engine if the tokenizer's file allows one and its ids equal Hugging Face's for every token of the
    vocabulary and for a sample of ``texts``: thousands spread over them, and each with a character not seen before.
    """
    if not COMPILES:
        return EncoderChoice(engine="tokenizers", why="tokenizers: there is no compiler here")
    exact = HuggingFaceEncoder(tokenizer.tokenizer)
    try:
        engine, fast, kind = _fastest(tokenizer, lambda: exact)
    except (NotByteLevel, NotWords) as reason:
        return EncoderChoice(engine="tokenizers", why=f"tokenizers: {reason}")
    except ValueError as error:
        return EncoderChoice(engine="tokenizers", why=f"tokenizers: tiktoken cannot read its expression ({error})")
    sample = sampled(texts)
    for what, checked in (("tokens of its vocabulary", _vocabulary(tokenizer, engine)), ("texts of the data", sample)):
        for start in range(0, len(checked), _COMPARED_AT_ONCE):
            if not equal_ids(fast, exact, checked[start : start + _COMPARED_AT_ONCE]):
                return EncoderChoice(engine="tokenizers", why=f"tokenizers: the fast engine has other ids for {what}")
    return EncoderChoice(
        engine=engine,
        why=f"{engine}: {kind}, ids equal on its vocabulary and on {len(sample)} texts of the data",
    )


def open_encoder(tokenizer: ChatTokenizer, engine: Engine) -> Encoder:
    """The chosen engine, in any process."""
    if engine == "tokenizers":
        return HuggingFaceEncoder(tokenizer.tokenizer)
    return _open(engine, tokenizer, lambda: HuggingFaceEncoder(tokenizer.tokenizer))


def _fastest(tokenizer: ChatTokenizer, other: Callable[[], Encoder]) -> tuple[Engine, Encoder, str]:
    """The fastest engine for the tokenizer, and its kind. Raises NotByteLevel or NotWords, and ValueError."""
    model = json.loads(tokenizer.tokenizer.to_str())["model"]
    if model.get("byte_fallback"):
        return "words", _open("words", tokenizer, other), "BPE in which words know nothing of each other"
    engine: Engine = "compiled" if _tables(tokenizer).pattern in PATTERNS else "tiktoken"
    return engine, _open(engine, tokenizer, other), "byte-level BPE"


def _open(engine: Engine, tokenizer: ChatTokenizer, other: Callable[[], Encoder]) -> Encoder:
    if engine == "words":
        return WordEncoder(words_of(json.loads(tokenizer.tokenizer.to_str()), tokenizer.special_ids), other)
    kind = CompiledEncoder if engine == "compiled" else TiktokenEncoder
    return kind(_tables(tokenizer), other)


def _tables(tokenizer: ChatTokenizer) -> ByteLevel:
    return byte_level(json.loads(tokenizer.tokenizer.to_str()), tokenizer.special_ids)


def sampled(texts: Iterable[str]) -> list[str]:
    """At most ``2 * _SPREAD`` of the texts at equal distances, and each with a non-ASCII character not seen yet."""
    kept: list[str] = []
    unusual: list[str] = []
    seen: set[str] = set()
    step = 1
    for number, text in enumerate(texts):
        if number % step == 0:
            kept.append(text)
            if len(kept) == 2 * _SPREAD:
                kept, step = kept[::2], 2 * step
        if not text.isascii():
            characters = set(text)
            if not characters <= seen:
                seen |= characters
                unusual.append(text)
    return [*kept, *unusual]


def equal_ids(one: Encoder, other: Encoder, texts: Sequence[str]) -> bool:
    """Whether two engines encode texts alike. Text that neither accepts is left to the encoding itself."""
    readable = [text for text in texts if has_utf8(text)]
    nothing: list[list[tuple[int, int]]] = [[] for _ in readable]
    first, second = one.encode(readable, nothing), other.encode(readable, nothing)
    return np.array_equal(first.ids, second.ids) and np.array_equal(first.offsets, second.offsets)


def _vocabulary(tokenizer: ChatTokenizer, engine: Engine) -> list[str]:
    """Every token that is text by itself."""
    if engine == "words":
        return sorted(piece.replace("▁", " ") for piece in tokenizer.tokenizer.get_vocab(with_added_tokens=False))
    tables = _tables(tokenizer)
    texts = []
    for name in {**dict.fromkeys(tables.names().values()), **tables.words}:
        try:
            texts.append(name.decode())
        except UnicodeDecodeError:
            continue
    return texts
