"""The fast engine is chosen only where file and data say that its ids are Hugging Face's."""

import pickle
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer

from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.tokenizers.choice import choose_encoder, open_encoder, sampled
from ft_assets.workers.tokenizers.compiled import CompiledEncoder
from ft_assets.workers.tokenizers.encoder import Encoded
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.workers.packs.encoding import tokenizers
from tests.workers.packs.encoding.conftest import tokenizer_of

TEXTS = ["the quick brown fox", "多言語 🙂", "it's 1234 o'clock\n"]


@pytest.mark.statistics
@pytest.mark.parametrize(
    ("kind", "engine"),
    [
        ("gpt2", "compiled"),
        ("qwen", "compiled"),
        ("llama3", "compiled"),
        ("swallowing", "compiled"),
        ("own", "tiktoken"),
        ("phi3", "words"),
        ("mistral", "words"),
        ("unigram", "tokenizers"),
        ("words", "tokenizers"),
    ],
)
def test_the_engine_fits_the_tokenizer_and_says_why(kind: str, engine: str) -> None:
    choice = choose_encoder(tokenizer_of(kind), TEXTS)
    assert choice.engine == engine
    assert choice.why.startswith(f"{engine}: ")
    assert pickle.loads(pickle.dumps(choice)) == choice


def _model(**settings: object) -> Callable[[dict[str, Any]], object]:
    return lambda description: description["model"].update(settings)


def _split(**settings: object) -> Callable[[dict[str, Any]], object]:
    return lambda description: description["pre_tokenizer"]["pretokenizers"][0].update(settings)


def _byte_part(**settings: object) -> Callable[[dict[str, Any]], object]:
    return lambda description: description["pre_tokenizer"]["pretokenizers"][1].update(settings)


def _added(**settings: object) -> Callable[[dict[str, Any]], object]:
    return lambda description: description["added_tokens"][-1].update(settings)


def _lose_a_byte(description: dict[str, Any]) -> None:
    vocabulary, merges = description["model"]["vocab"], description["model"]["merges"]
    del vocabulary["ÿ"]
    description["model"]["merges"] = [pair for pair in merges if "ÿ" not in "".join(pair)]


UNKNOWN: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "dropout": (_model(dropout=0.1), "merges at random"),
    "a prefix of words": (_model(end_of_word_suffix="</w>"), "where words begin or end"),
    "a missing byte": (_lose_a_byte, "lacks single bytes"),
    "another normalizer": (lambda d: d.update(normalizer={"type": "Lowercase"}), "rewrites text before"),
    "a space before texts": (_byte_part(add_prefix_space=True), "a space before texts"),
    "both expressions": (_byte_part(use_regex=True), "cuts text in another way"),
    "pieces left out": (_split(behavior="Removed"), "cuts text in another way"),
    "gaps for pieces": (_split(invert=True), "cuts text in another way"),
    "a fixed string": (_split(pattern={"String": " "}), "at a fixed string"),
    "no pieces": (lambda d: d.update(pre_tokenizer=None), "not at all"),
    "another pre-tokenizer": (lambda d: d.update(pre_tokenizer={"type": "BertPreTokenizer"}), "BertPreTokenizer"),
    "added tokens with white space": (_added(rstrip=True), "reach out for white space"),
    "added words": (_added(single_word=True), "want whole words"),
    "two rounds of added tokens": (_added(normalized=True), "two rounds"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_whatever_the_fast_engine_does_not_know_is_hugging_face_s(name: str) -> None:
    change, reason = UNKNOWN[name]
    tokenizer = ChatTokenizer(tokenizers.changed(tokenizers.composing(), change), tokenizers.NAMED)
    choice = choose_encoder(tokenizer, TEXTS)
    assert choice.engine == "tokenizers"
    assert reason in choice.why


def test_an_expression_that_tiktoken_cannot_read_is_hugging_face_s() -> None:
    tokenizer = ChatTokenizer(tokenizers.composing(r"\X+", []), tokenizers.NAMED)
    assert "cannot read its expression" in choose_encoder(tokenizer, TEXTS).why


def test_what_tiktoken_gives_up_on_is_left_to_hugging_face() -> None:
    tokenizer = ChatTokenizer(tokenizers.composing(r"\w*|.", []), tokenizers.NAMED)
    fast, exact = open_encoder(tokenizer, "tiktoken"), open_encoder(tokenizer, "tokenizers")
    assert fast.encode(["the fox"], [[]]).ids.tolist() == exact.encode(["the fox"], [[]]).ids.tolist()


def test_overlapping_added_tokens_are_not_tiktoken_s() -> None:
    tokenizer = ChatTokenizer(tokenizers.composing(tokenizers.OWN, ["<a>", "<a>>"]), tokenizers.NAMED)
    assert "overlap" in choose_encoder(tokenizer, TEXTS).why


def test_a_control_token_with_an_added_token_in_it_is_hugging_face_s() -> None:
    tokenizer = ChatTokenizer(tokenizers.composing(added=["end"]), tokenizers.NAMED)
    assert "in them" in choose_encoder(tokenizer, TEXTS).why


class _WrongForUmbrellas(CompiledEncoder):
    def encode(
        self, segments: Sequence[str], learned: Sequence[Sequence[Span]], opening: Collection[int] = ()
    ) -> Encoded:
        return super().encode([text.replace("☂", "☔") for text in segments], learned, opening)


def test_ids_that_differ_on_the_data_make_hugging_face_s_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ft_assets.workers.tokenizers.choice.CompiledEncoder", _WrongForUmbrellas)
    plain = ["a word"] * 9000
    assert choose_encoder(tokenizer_of("qwen"), plain).engine == "compiled"
    choice = choose_encoder(tokenizer_of("qwen"), [*plain, "one ☂", *plain])
    assert choice.engine == "tokenizers"
    assert "other ids for texts of the data" in choice.why


def test_a_vocabulary_that_merges_do_not_make_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ft_assets.workers.tokenizers.choice.PATTERNS", {})

    def unreachable(description: dict[str, Any]) -> None:
        vocabulary = description["model"]["vocab"]
        pairs = [("q", "j"), ("x", "qj"), ("x", "q")]
        description["model"]["merges"] = [["x", "q"], ["q", "j"], ["x", "qj"], *description["model"]["merges"]]
        for left, right in pairs:
            vocabulary.setdefault(left + right, len(vocabulary))

    tokenizer = ChatTokenizer(tokenizers.changed(tokenizers.byte_level(), unreachable), tokenizers.NAMED)
    choice = choose_encoder(tokenizer, TEXTS)
    assert choice.engine == "tokenizers"
    assert "other ids for tokens of its vocabulary" in choice.why


def test_texts_that_no_engine_can_read_do_not_stop_the_choice() -> None:
    assert choose_encoder(tokenizer_of("qwen"), [*TEXTS, "half \ud800"]).engine == "compiled"


def test_the_sample_is_spread_and_has_every_unusual_character() -> None:
    many = [f"text {number}" for number in range(100_000)]
    many[77_777] = "one ☂ here"
    many[88_888] = "☂ again"
    sample = sampled(iter(many))
    assert 2000 <= len(sample) <= 4097
    assert "one ☂ here" in sample
    numbers = np.array([int(text.split()[1]) for text in sample if text.startswith("text")])
    assert np.diff(numbers).max() <= 2 * np.diff(numbers).min()
    assert sampled([]) == []


def test_a_tokenizer_without_an_end_token_or_with_pad_equal_to_it_is_a_tokenizer() -> None:
    bare = ChatTokenizer(Tokenizer.from_str(tokenizers.byte_level().to_str()), {})
    assert bare.token_id("eos_token") is None
    assert choose_encoder(bare, TEXTS).engine == "compiled"
    same = tokenizer_of("qwen")
    assert same.token_id("pad_token") == same.token_id("eos_token")
    assert same.token_id("eos_token") in same.control_ids
