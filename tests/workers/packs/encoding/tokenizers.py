"""Small tokenizers of every kind that the encoding tells apart, trained in milliseconds."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer

QWEN = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = QWEN.replace(r"\p{N}|", r"\p{N}{1,3}|")
# Words, numbers, the rest: an expression that our compiled code does not know.
OWN = r"\p{L}+|\p{N}+|[^\p{L}\p{N}]"
NAMED = {"bos_token": "<|bos|>", "eos_token": "<|end|>", "pad_token": "<|end|>"}
_CONTROL = ["<|bos|>", "<|end|>", "<|user|>", "<|assistant|>"]
_TEXT = [
    "The quick brown fox isn't here; he's where they'll find him, I'd say 1234 times!",
    "   indented\n\n\tcode = value_1 + 22 # 'quoted' ''twice''\r\nnext line",
    "多言語の文章です。 שלום עולם 👩‍👩‍👧 é e\u0301 ½ Ⅷ",
]


def byte_level(pattern: str | None = QWEN, *, vocabulary: int = 500) -> Tokenizer:
    """Byte-level BPE with the pieces of ``pattern``, GPT-2's where it is None."""
    tokenizer = Tokenizer(models.BPE())
    whole = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=pattern is None)
    tokenizer.pre_tokenizer = (
        whole if pattern is None else pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), whole])
    )
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=_CONTROL, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(_TEXT * 3, trainer)
    return tokenizer


def composing(pattern: str = QWEN, added: Sequence[str] = ("<tool>", "</tool>", "<tool>>")) -> Tokenizer:
    """As Qwen's: NFC before, and added tokens that are no control tokens."""
    tokenizer = byte_level(pattern)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in added])
    return tokenizer


def sentencepiece(*, prepend: str = "always") -> Tokenizer:
    """As Llama 2's and Phi-3's: a space before texts (``first``: before documents), bytes for unknown characters."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁", *"abcdefghijklmnopqrstuvwxyz,.'!?"]
    merges = [("▁", "t"), ("▁t", "h"), ("h", "e"), ("▁t", "he"), ("▁", "a"), ("o", "r")]
    vocabulary = {piece: number for number, piece in enumerate([*pieces, *("".join(pair) for pair in merges)])}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    if prepend == "always":
        tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend, split=False)
    tokenizer.add_special_tokens([AddedToken("<unk>", normalized=False), *_control()])
    return tokenizer


def unigram() -> Tokenizer:
    pieces = [("<unk>", 0.0), ("▁", -2.0), ("▁the", -3.0), ("fox", -4.0), *((letter, -5.0) for letter in "abcdefotx")]
    tokenizer = Tokenizer(models.Unigram(pieces, 0, False))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens([AddedToken("<unk>", normalized=False), *_control()])
    return tokenizer


def words() -> Tokenizer:
    """Whole words only; a control token is a word like any other in its vocabulary."""
    vocabulary = {word: number for number, word in enumerate(["<unk>", "the", "fox", *_CONTROL])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, "<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([AddedToken("<unk>", normalized=False), *_control()])
    return tokenizer


def swallowing() -> Tokenizer:
    """As Phi-3's: a control token that takes the white space behind it, and one that takes that before it."""
    tokenizer = byte_level()
    tokenizer.add_special_tokens(
        [
            AddedToken("<|end|>", rstrip=True, normalized=False),
            AddedToken("<|user|>", lstrip=True, normalized=False),
            AddedToken("<|assistant|>", lstrip=True, rstrip=True, normalized=False),
        ]
    )
    return tokenizer


def changed(tokenizer: Tokenizer, change: Callable[[dict[str, Any]], object]) -> Tokenizer:
    """The tokenizer with its tokenizer.json edited."""
    description = json.loads(tokenizer.to_str())
    change(description)
    return Tokenizer.from_str(json.dumps(description))


def looking_up() -> Tokenizer:
    """As Llama 3's: pieces that are in the vocabulary are not merged, even where the merges would not make them."""

    def change(description: dict[str, Any]) -> None:
        description["model"]["ignore_merges"] = True
        description["model"]["vocab"]["Ġfoxes"] = 100_000

    return changed(byte_level(LLAMA3), change)


KINDS: dict[str, Callable[[], Tokenizer]] = {
    "gpt2": lambda: byte_level(None),
    "qwen": composing,
    "llama3": looking_up,
    "own": lambda: composing(OWN, ["<tool>", "</tool>"]),
    "phi3": sentencepiece,
    "mistral": lambda: sentencepiece(prepend="first"),
    "unigram": unigram,
    "words": words,
    "swallowing": swallowing,
}


def chat_tokenizer(kind: str) -> ChatTokenizer:
    return ChatTokenizer(KINDS[kind](), NAMED)


def _control() -> list[AddedToken]:
    return [AddedToken(text, normalized=False) for text in _CONTROL]
