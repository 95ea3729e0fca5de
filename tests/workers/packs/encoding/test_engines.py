"""Every engine gives the ids and the marks of Hugging Face's, whatever the text."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.tokenizers.byte_level import byte_level
from ft_assets.workers.tokenizers.choice import Engine, open_encoder
from ft_assets.workers.tokenizers.compiled import CompiledEncoder
from ft_assets.workers.tokenizers.encoder import Encoded, Encoder
from ft_assets.workers.tokenizers.hugging_face import HuggingFaceEncoder
from tests.workers.packs.corners import corners
from tests.workers.packs.encoding.conftest import ATOMS, spans_of, texts, tokenizer_of

FAST: list[tuple[Engine, str]] = [
    ("compiled", "gpt2"),
    ("compiled", "qwen"),
    ("compiled", "llama3"),
    ("tiktoken", "gpt2"),
    ("tiktoken", "own"),
    ("words", "phi3"),
    ("words", "mistral"),
]


@cache
def _engine(engine: Engine, kind: str) -> Encoder:
    return open_encoder(tokenizer_of(kind), engine)


def _same(one: Encoded, other: Encoded) -> None:
    assert one.offsets.tolist() == other.offsets.tolist()
    assert one.ids.tolist() == other.ids.tolist()
    assert one.learned.tolist() == other.learned.tolist()
    assert (one.ids.dtype, one.learned.dtype, one.offsets.dtype) == (np.int32, np.bool_, np.int64)


@pytest.mark.parametrize(("engine", "kind"), FAST)
@settings(max_examples=10)
@given(data=st.data())
def test_fast_engines_give_the_ids_and_marks_of_hugging_face(engine: Engine, kind: str, data: st.DataObject) -> None:
    segments = data.draw(st.lists(texts.filter(bool), max_size=6))
    learned = [data.draw(spans_of(segment)) for segment in segments]
    _same(_engine(engine, kind).encode(segments, learned), _engine("tokenizers", kind).encode(segments, learned))


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
@pytest.mark.parametrize(("engine", "kind"), FAST)
def test_pairs_and_triples_of_what_is_special_are_encoded_alike(engine: Engine, kind: str, step: int) -> None:
    segments = [one + other + end for one in ATOMS for other in ATOMS[::step] for end in ("", "x", " 7")]
    nothing: list[list[Span]] = [[] for _ in segments]
    _same(_engine(engine, kind).encode(segments, nothing), _engine("tokenizers", kind).encode(segments, nothing))


@pytest.mark.parametrize(("engine", "kind"), FAST)
@pytest.mark.parametrize("unit", corners(["a", " ", "\n", "!", "多", "1", "\u200b", "e\u0301", "word "], ["a", "多"]))
def test_texts_of_very_many_characters_are_encoded_alike(engine: Engine, kind: str, unit: str) -> None:
    segments = ["x", unit * 30_000, "y"]
    learned = [[(0, 1)], [(10, 20_000)], [(0, 1)]]
    _same(_engine(engine, kind).encode(segments, learned), _engine("tokenizers", kind).encode(segments, learned))


@pytest.mark.parametrize(("engine", "kind"), [("compiled", "qwen"), ("tokenizers", "phi3")])
@pytest.mark.parametrize("unit", ["a", " "])
def test_a_million_characters_are_a_text_like_any_other(engine: Engine, kind: str, unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    found = _engine(engine, kind).encode([text], [[(0, len(text))]])
    assert found.learned.all()
    decoded = tokenizer_of(kind).tokenizer.decode(found.ids.tolist())
    assert kind == "phi3" or decoded == text


def test_ids_do_not_depend_on_what_else_is_in_the_call_or_was_before() -> None:
    segments = [one + other for one in ATOMS for other in ATOMS[::7]]
    nothing: list[list[Span]] = [[] for _ in segments]
    fresh = open_encoder(tokenizer_of("qwen"), "compiled")
    together = fresh.encode(segments, nothing)
    for _ in range(2):
        alone = [fresh.encode([segment], [[]]).ids.tolist() for segment in reversed(segments)]
        assert [number for ids in reversed(alone) for number in ids] == together.ids.tolist()


def test_pieces_that_find_no_room_in_memory_are_merged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ft_assets.workers.tokenizers.compiled._PIECES", 2)
    small = open_encoder(tokenizer_of("gpt2"), "compiled")
    segments = [f"word{number} and {number}" for number in range(300)] * 2
    nothing: list[list[Span]] = [[] for _ in segments]
    _same(small.encode(segments, nothing), _engine("tokenizers", "gpt2").encode(segments, nothing))


def test_large_batches_are_split_into_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    segments, learned = ["one", "two words", "", "é" * 50, "x"], [[(0, 2)], [(3, 9)], [], [(1, 49)], [(0, 1)]]
    whole = _engine("compiled", "qwen").encode(segments, learned)
    monkeypatch.setattr("ft_assets.workers.tokenizers.batching._CALL", 8)
    _same(_engine("compiled", "qwen").encode(segments, learned), whole)


def test_what_no_text_is_has_no_tokens() -> None:
    for engine, kind in [*FAST, ("tokenizers", "phi3")]:
        assert _engine(engine, kind).encode([], []).offsets.tolist() == [0]
        assert _engine(engine, kind).encode([""], [[]]).offsets.tolist() == [0, 0]


def test_merges_of_equal_tokens_at_several_ranks_are_taken_in_their_order() -> None:
    # "abc" comes from "ab" and "c" or, later, from "a" and "bc"; tiktoken knows one rank a token.
    tokenizer = tokenizer_of("gpt2").tokenizer
    vocabulary = {letter: number for number, letter in enumerate(sorted(_letters(tokenizer)))}
    merges = [("b", "c"), ("a", "bc"), ("d", "e"), ("a", "b"), ("ab", "c"), ("ab", "cd"), ("c", "d")]
    for left, right in merges:
        vocabulary.setdefault(left + right, len(vocabulary))
    description = {"type": "BPE", "vocab": vocabulary, "merges": merges}
    tables = byte_level(
        {
            "model": description,
            "normalizer": None,
            "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            "added_tokens": [],
        },
        [],
    )
    plain = Tokenizer.from_str(tokenizer.to_str())
    plain.model = type(plain.model)(vocabulary, merges)
    exact = HuggingFaceEncoder(plain)
    fast = CompiledEncoder(tables, lambda: exact)
    segments = ["abc", "abcd", "aabbccdd", "bcde", "abcdeabcde", "abab cdcd"]
    nothing: list[list[Span]] = [[] for _ in segments]
    assert fast.encode(segments, nothing).ids.tolist() == exact.encode(segments, nothing).ids.tolist()


def _letters(tokenizer: Tokenizer) -> set[str]:
    return {piece for piece in tokenizer.get_vocab() if len(piece) == 1}
