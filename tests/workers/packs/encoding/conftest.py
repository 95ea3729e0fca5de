"""Texts that tokenizers stumble over, and tokenizers made once."""

from functools import cache

from hypothesis import strategies as st

from ft_assets.workers.templates.rendering import Span
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from tests.workers.packs.encoding import tokenizers

ATOMS = [
    *("'s", "'S", "'ſ", "'LL", "'Re", "'", "don't", "_", "<|", "-1", "$9.99", "?!", " '", "the", " fox", " foxes"),
    *(" ", "   ", "\n", "\r\n", "\t", " \n ", "\x0b", "\x0c", "\x1c", "\x85", "\xa0", "\u2028", "\u3000", "\x00"),
    *("1", "12345", "½", "٣", "Ⅷ", "𝟘", "多言語", "é", "e\u0301", "\u0308", "ﬁ", "ſ", "ß", "İ", "שלום", "مرحبا"),
    *(
        "ก็",
        "한국어",
        "🙂",
        "👩‍👩‍👧",
        "\u200b",
        "\u200d",
        "\ue000",
        "\ufdd0",
        "\uffff",
        "\U000f0001",
        "\U0010ffff",
        "\u1c89",
    ),
    *("<|end|>", "<|user|>", "<tool>", "</tool>", "<tool>>", "<tool", "<unk>", "\ufdd0 1 \ufdd1"),
]
texts = st.lists(st.one_of(st.sampled_from(ATOMS), st.text(max_size=4)), max_size=12).map("".join)
"""Texts of any characters but surrogates, rich in what is special to some tokenizer."""


@st.composite
def spans_of(draw: st.DrawFn, text: str) -> list[Span]:
    """Spans of a text, in order and apart."""
    edges = sorted(draw(st.sets(st.integers(0, len(text)), max_size=4)))
    return list(zip(edges[::2], edges[1::2], strict=False))


@cache
def tokenizer_of(kind: str) -> ChatTokenizer:
    return tokenizers.chat_tokenizer(kind)
