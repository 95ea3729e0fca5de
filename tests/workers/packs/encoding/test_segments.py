"""Documents cut at their control tokens have the ids of the whole, and every learned character a learned token."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.templates.rendering import Rendering, Span
from ft_assets.workers.tokenizers.encoder import Encoded
from ft_assets.workers.tokenizers.hugging_face import HuggingFaceEncoder, marked
from ft_assets.workers.tokenizers.segments import SEGMENT, Cuts, DocumentEncoder, Tokens
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData
from tests.workers.packs.encoding.conftest import spans_of, texts, tokenizer_of
from tests.workers.packs.encoding.tokenizers import KINDS

controls = st.sampled_from(["<|bos|>", "<|end|>", "<|user|>", "<|assistant|>"])
plain = texts.filter(lambda text: "<|" not in text and "<unk>" not in text)
documents = st.lists(st.one_of(controls, controls, plain), max_size=8).map("".join)


def _encode(tokenizer: ChatTokenizer, text: str, learned: list[Span], quoted: list[Span] | None = None) -> Tokens:
    return tokenizer.encode(Rendering(text=text, turns=[], quoted=quoted or []), learned)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_ids_and_marks_of_documents_are_those_of_their_whole_text(kind: str, data: st.DataObject) -> None:
    tokenizer = tokenizer_of(kind)
    text = data.draw(documents)
    learned = data.draw(spans_of(text))
    tokens = _encode(tokenizer, text, learned)
    whole = tokenizer.tokenizer.encode(text, add_special_tokens=False)
    assert tokens.ids.tolist() == whole.ids
    # Hugging Face gives a space that it puts before a text to the text's first character, and so may this be learned.
    assert not (marked(whole, learned) & ~tokens.learned).any()
    if kind in ("gpt2", "qwen", "llama3", "own", "swallowing"):
        assert tokens.learned.tolist() == marked(whole, learned).tolist()


@pytest.mark.parametrize("kind", KINDS)
@given(texts)
def test_no_text_whatever_it_spells_becomes_a_control_token(kind: str, text: str) -> None:
    tokenizer = tokenizer_of(kind)
    quoted = [found.span() for found in tokenizer.control.finditer(text)]
    tokens = _encode(tokenizer, text, [(0, len(text))], quoted)
    assert not np.isin(tokens.ids, list(tokenizer.control_ids)).any()
    assert tokens.learned.all()


def test_a_document_is_cut_at_its_control_tokens_only() -> None:
    tokenizer = tokenizer_of("qwen")
    text = "<|user|>what is <|end|>?<|end|>\n"
    start = text.index("<|end|>")
    cuts = Cuts()
    tokenizer.cut(cuts, Rendering(text=text, turns=[], quoted=[(start, start + 7)]), [(13, 31)])
    assert cuts.segments == ["what is <|end|>?", "\n"]
    assert cuts.learned == [[(5, 16)], []]
    ids = tokenizer.special_ids
    assert cuts.parts == [ids["<|user|>"], SEGMENT, ids["<|end|>"], SEGMENT]
    assert cuts.parts_learned == [False, False, True, False]


def test_white_space_that_a_control_token_takes_marks_it_learned() -> None:
    tokenizer = tokenizer_of("swallowing")
    ids = tokenizer.special_ids
    # Of "<|end|>  \n" only the line break is learned, which the token has taken.
    assert _encode(tokenizer, "a<|end|>  \nb", [(10, 11)]).learned.tolist() == [False, True, False]
    assert _encode(tokenizer, "a \n<|user|>b", [(1, 2)]).learned.tolist() == [False, True, False]
    # Between two that would take it, the first does.
    both = _encode(tokenizer, "<|end|> \n <|user|>", [(8, 9)])
    assert both.ids.tolist() == [ids["<|end|>"], ids["<|user|>"]]
    assert both.learned.tolist() == [True, False]


def test_cuts_are_left_as_they_were() -> None:
    tokenizer = tokenizer_of("swallowing")
    cuts = Cuts()
    tokenizer.cut(cuts, Rendering(text="a \n<|user|> b", turns=[], quoted=[]), [(1, 2)])
    before = (list(cuts.segments), list(cuts.parts_learned))
    encoder = tokenizer.documents(HuggingFaceEncoder(tokenizer.tokenizer))
    assert encoder.encode(cuts).ids.tolist() == encoder.encode(cuts).ids.tolist()
    assert (cuts.segments, cuts.parts_learned) == before


def test_only_the_beginning_of_a_document_gets_the_space_of_metaspace_first() -> None:
    tokenizer = tokenizer_of("mistral")
    space = tokenizer.tokenizer.token_to_id("▁")
    assert _encode(tokenizer, "fox<|end|>fox", []).ids.tolist().count(space) == 1
    assert _encode(tokenizer, "<|bos|>fox<|end|>fox", []).ids.tolist().count(space) == 0


def test_control_flags_are_of_the_template_s_tokens_without_the_one_for_unknown_text() -> None:
    tokenizer = tokenizer_of("words")
    tokenizer.named["unk_token"] = "<unk>"
    again = ChatTokenizer(tokenizer.tokenizer, tokenizer.named)
    cuts = Cuts()
    again.cut(cuts, Rendering(text="<|user|>the dog <unk><|end|>", turns=[], quoted=[]), [])
    encoded = again.documents(HuggingFaceEncoder(again.tokenizer)).encode(cuts)
    assert encoded.control.tolist() == [True, False, False, False, True]


def test_documents_keep_their_borders_where_some_are_empty() -> None:
    tokenizer = tokenizer_of("gpt2")
    cuts = Cuts()
    renderings = ["", "a", "<|end|>", "", "b<|end|>c", ""]
    for text in renderings:
        tokenizer.cut(cuts, Rendering(text=text, turns=[], quoted=[]), [])
    encoded = tokenizer.documents(HuggingFaceEncoder(tokenizer.tokenizer)).encode(cuts)
    assert np.diff(encoded.offsets).tolist() == [0, 1, 1, 0, 3, 0]
    assert len(encoded.ids) == len(encoded.control) == encoded.offsets[-1]


@pytest.mark.parametrize("kind", ["qwen", "phi3"])
def test_half_a_character_is_an_error_that_names_its_document_and_not_its_text(kind: str) -> None:
    tokenizer = tokenizer_of(kind)
    cuts = Cuts()
    for text in ("<|user|>fine<|end|>", "<|user|>a<|end|>secret \ud83d here<|end|>"):
        tokenizer.cut(cuts, Rendering(text=text, turns=[], quoted=[]), [])
    with pytest.raises(BadData, match="half a character") as caught:
        tokenizer.documents(HuggingFaceEncoder(tokenizer.tokenizer)).encode(cuts, where="row {}".format)
    assert caught.value.where == "row 1"
    assert "secret" not in str(caught.value)


class _Lengths:
    """An engine with one token a character, that remembers which segments began documents."""

    def __init__(self) -> None:
        self.opening: list[int] = []

    def encode(self, segments: list[str], learned: list[list[Span]], opening: object = ()) -> Encoded:
        self.opening = sorted(opening)  # type: ignore[call-overload]
        lengths = [len(segment) for segment in segments]
        return Encoded(
            ids=np.arange(sum(lengths), dtype=np.int32),
            learned=np.zeros(sum(lengths), np.bool_),
            offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        )


def test_engines_are_told_which_segments_begin_documents() -> None:
    engine = _Lengths()
    cuts = Cuts(segments=["ab", "c", "d", "e"], learned=[[]] * 4, offsets=[0, 3, 3, 5, 6])
    cuts.parts = [SEGMENT, 9, SEGMENT, 9, SEGMENT, SEGMENT]
    cuts.parts_learned = [False] * 6
    encoded = DocumentEncoder(engine, control_ids=[9], swallowing={}).encode(cuts)
    assert engine.opening == [0, 3]
    assert encoded.ids.tolist() == [0, 1, 9, 2, 9, 3, 4]
    assert encoded.offsets.tolist() == [0, 4, 4, 6, 7]
