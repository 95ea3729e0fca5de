"""Control tokens come from the template; what a message spells stays text."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer

from ft_assets.workers.templates.rendering import Rendering
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import learned_spans
from ft_assets.workers.tokenizers.chat_template import load_template
from ft_assets.workers.tokenizers.hugging_face import marked
from ft_assets.workers.tokenizers.segments import Tokens
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData
from tests.fake_base import SPECIALS
from tests.workers.packs.conftest import Conversation, chat, edit_json
from tests.workers.packs.templates.templates import compiled


@pytest.fixture(scope="session")
def tokenizer(base_tokenizer: ChatTokenizer) -> ChatTokenizer:
    return base_tokenizer


@pytest.fixture(scope="session")
def template(base: Path, tokenizer: ChatTokenizer) -> ChatTemplate:
    return load_template(base, tokenizer, None)


def _encode(tokenizer: ChatTokenizer, template: ChatTemplate, messages: Conversation) -> tuple[Rendering, Tokens]:
    rendering = template.trace(messages, where="row 1")
    spans = learned_spans(
        rendering,
        tokenizer.template_tokens(rendering),
        learn="all_assistant",
        end_of_turn=template.probes.ends,
        marked=template.marked,
    )
    return rendering, tokenizer.encode(rendering, spans)


def _text(tokenizer: ChatTokenizer, ids: np.ndarray) -> str:
    return tokenizer.tokenizer.decode(ids.tolist(), skip_special_tokens=False)


pieces = st.one_of(
    st.sampled_from([*SPECIALS, "<|", "|>", "end|>", " ", "\n", "🙂", "多", "א", "\u200b", "\U000f0001", "\ufdd0"]),
    st.text(max_size=8),
)
contents = st.lists(pieces, max_size=6).map("".join)


@given(st.lists(contents, min_size=2, max_size=4).filter(lambda texts: len(texts) % 2 == 0))
def test_whatever_messages_spell_the_template_alone_writes_control_tokens(
    tokenizer: ChatTokenizer, template: ChatTemplate, texts: list[str]
) -> None:
    rendering, tokens = _encode(tokenizer, template, chat(*texts))
    # One opening and one end token each message.
    assert int(np.isin(tokens.ids, list(tokenizer.control_ids)).sum()) == 2 * len(texts)
    assert _text(tokenizer, tokens.ids) == rendering.text
    learned = "".join(f"{answer}<|end|>" for answer in texts[1::2])
    assert _text(tokenizer, tokens.ids[tokens.learned]) == learned


def test_text_around_a_spelled_token_is_encoded_as_if_there_were_no_control_tokens(
    tokenizer: ChatTokenizer, template: ChatTemplate
) -> None:
    _, tokens = _encode(tokenizer, template, chat("x", "the<|end|>fox"))
    plain = Tokenizer.from_str(tokenizer.tokenizer.to_str())
    plain.encode_special_tokens = True
    assert tokens.ids[tokens.learned].tolist() == [*plain.encode("the<|end|>fox").ids, plain.token_to_id("<|end|>")]


@given(st.lists(st.text(max_size=30), min_size=2, max_size=2))
def test_ids_of_segments_are_those_of_the_whole_rendering(
    tokenizer: ChatTokenizer, template: ChatTemplate, texts: list[str]
) -> None:
    rendering = template.trace(chat(*texts), where="row 1")
    if not rendering.quoted:
        tokens = tokenizer.encode(rendering, rendering.turns)
        whole = tokenizer.tokenizer.encode(rendering.text, add_special_tokens=False)
        assert tokens.ids.tolist() == whole.ids
        assert tokens.learned.tolist() == marked(whole, rendering.turns).tolist()


def test_a_token_named_only_in_the_settings_is_a_control_token(base_folder: Path) -> None:
    def rename(value: dict[str, object]) -> None:
        value["eos_token"] = "fox"

    edit_json(base_folder / "tokenizer_config.json", rename)
    description = json.loads((base_folder / "tokenizer.json").read_bytes())
    if "fox" not in description["model"]["vocab"]:
        description["model"]["vocab"]["fox"] = len(description["model"]["vocab"])
        (base_folder / "tokenizer.json").write_text(json.dumps(description))
    tokenizer = ChatTokenizer.load(base_folder)
    source = "{% for m in messages %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}{% endfor %}"
    template = compiled(source, tokenizer)
    rendering, tokens = _encode(tokenizer, template, [{"role": "assistant", "content": "a fox here"}])
    assert rendering.text == "a fox herefox"
    assert tokens.ids.tolist().count(tokenizer.tokenizer.token_to_id("fox")) == 1


def test_a_template_that_looks_into_a_spelled_token_is_an_error(tokenizer: ChatTokenizer) -> None:
    source = "{% for m in messages %}{{ m.content.split('<|end|>')[0] }}<|end|>{% endfor %}"
    template = compiled(source, tokenizer)
    with pytest.raises(BadData, match="a control token in a message") as caught:
        template.trace(chat("private <|end|> words", "b"), where="row 7")
    assert caught.value.where == "row 7, the template"
    assert "private" not in str(caught.value)


def _labels(tokenizer: ChatTokenizer, source: str, messages: Conversation) -> str:
    template = compiled(source, tokenizer)
    _, tokens = _encode(tokenizer, template, messages)
    return _text(tokenizer, tokens.ids[tokens.learned])


def test_an_end_of_turn_token_behind_the_marks_is_learned(tokenizer: ChatTokenizer) -> None:
    source = "{% for m in messages %}<|user|>{% generation %}{{ m.content }}{% endgeneration %}<|end|>\n{% endfor %}"
    assert _labels(tokenizer, source, [{"role": "assistant", "content": "yes"}]) == "yes<|end|>"


def test_the_next_turn_s_opening_is_not_taken_for_an_end_of_turn(tokenizer: ChatTokenizer) -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>"
        "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% endgeneration %}"
        "{% else %}{{ m.content }}{% endif %}{% endfor %}"
    )
    assert _labels(tokenizer, source, chat("a", "b", "c", "d")) == "bd"


def test_derived_turns_end_with_their_control_token(tokenizer: ChatTokenizer) -> None:
    source = (
        "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>\n{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    )
    assert _labels(tokenizer, source, chat("a", "b <|end|> b", "c", "d")) == "b <|end|> b<|end|>d<|end|>"
