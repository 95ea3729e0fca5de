"""An answer's text as it grows equals the text of all its tokens, and its last token costs no more than its first."""

from collections.abc import Callable, Sequence

import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from ft_assets.workers.tokenizers.growing_text import GrowingText

TEXT = "The quick fox, 你好 – Grüße 👩‍👧 e\u0301! "


def of_bytes() -> PreTrainedTokenizerFast:
    """A token for each byte, as GPT-2's and Llama 3's tokenizers have."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    made = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[]))
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")


def of_words() -> PreTrainedTokenizerFast:
    """Words that begin with a space, and bytes for all else, as Llama 2's and Gemma's tokenizers have."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "\u2581", *map(chr, range(33, 127))]
    vocabulary = {word: number for number, word in enumerate(words)}
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    made.normalizer = None
    made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    made.decoder = decoders.Sequence(steps)
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<end>")


class Counted:
    """A tokenizer that counts the tokens that it decodes."""

    def __init__(self, tokenizer: PreTrainedTokenizerFast) -> None:
        self.tokenizer, self.decoded = tokenizer, 0

    def decode(self, ids: Sequence[int], *, skip_special_tokens: bool) -> str:
        self.decoded += len(ids)
        return str(self.tokenizer.decode(ids, skip_special_tokens=skip_special_tokens))


@pytest.mark.parametrize("made", [of_bytes, of_words])
@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_the_parts_are_the_text_of_all_tokens_and_no_letter_comes_in_halves(
    made: Callable[[], PreTrainedTokenizerFast], step: int
) -> None:
    tokenizer = made()
    ids = tokenizer.encode(TEXT * 3, add_special_tokens=False)
    # A special token is not text, and does not remove a space from what follows.
    ids[5:5] = [tokenizer.eos_token_id]
    growing = GrowingText(tokenizer)
    chunks = [ids[start : start + step] for start in range(0, len(ids), step)]
    parts = [growing.add(chunk, ends=number == len(chunks) - 1) for number, chunk in enumerate(chunks)]
    assert "".join(parts) == tokenizer.decode(ids, skip_special_tokens=True) == TEXT * 3
    assert not any("\ufffd" in part for part in parts)


def test_the_last_of_many_tokens_costs_what_the_first_did() -> None:
    tokenizer = Counted(of_bytes())
    ids = tokenizer.tokenizer.encode(TEXT * 100)
    growing = GrowingText(tokenizer)
    for number in ids:
        growing.add([number], ends=False)
    assert tokenizer.decoded < 20 * len(ids)


def test_bytes_that_are_never_a_letter_are_told_in_time_and_cost_no_more() -> None:
    tokenizer = Counted(of_bytes())
    (start,) = tokenizer.tokenizer.encode("\u0100")[:1]
    growing = GrowingText(tokenizer)
    told = "".join(growing.add([start], ends=False) for _ in range(500))
    assert 400 <= len(told) <= 500
    assert set(told + growing.add([], ends=True)) == {"\ufffd"}
    assert tokenizer.decoded < 130 * 500


def test_half_a_letter_at_the_end_is_told_with_the_end() -> None:
    tokenizer = of_bytes()
    growing = GrowingText(tokenizer)
    first, second = tokenizer.encode("a\u00fc")[:2]
    assert [growing.add([first], ends=False), growing.add([second], ends=False)] == ["a", ""]
    assert growing.add([], ends=True) == "\ufffd"
