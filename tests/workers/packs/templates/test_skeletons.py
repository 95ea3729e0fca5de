"""Skeletons against the template itself: never another token, whatever the template does and the messages say."""

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer

from ft_assets.workers.packs.documents import chats as chats_module
from ft_assets.workers.packs.documents.chats import ChatLabeller, Labelled, Row, SkeletonDiffers
from ft_assets.workers.packs.documents.conversations import Conversations
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.tracing import Learn
from ft_assets.workers.tokenizers.chat_template import training_variant
from ft_assets.workers.tokenizers.hugging_face import HuggingFaceEncoder
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData, UserError
from tests.fake_base import make_fake_base
from tests.workers.packs.conftest import Conversation, chat
from tests.workers.packs.corners import corners
from tests.workers.packs.templates.templates import (
    CONTROL,
    NAMES,
    as_batch,
    compiled,
    source,
    tracer_of,
)

PIECES = st.one_of(
    st.sampled_from(
        [
            *("</think>", "<think>", "<tool_response>", "</tool_response>", "\n", " ", "\t", "\u00a0", "\u2003"),
            *("🙂", "👩‍👩‍👧", "多言語", "مرحبا", "e\u0301", "\u200b", "\ufdd0", "\U000f0000"),
            *("<", "<|", "<|im_", "|>", "im_end|>"),
            *CONTROL[:4],
            *("x", "a", "abc"),
        ]
    ),
    st.text(max_size=6),
)
CONTENTS = st.lists(PIECES, max_size=4).map("".join)
# More often than not plain, so that most rows do have a skeleton.
TURNS = st.one_of(st.text("ab \n", min_size=1, max_size=5), st.text("abc", min_size=1, max_size=5), CONTENTS)


@st.composite
def conversations(draw: st.DrawFn) -> list[Conversation]:
    """Some conversations, of few shapes."""
    made = []
    for _ in range(draw(st.integers(1, 6))):
        turns = draw(st.sampled_from([2, 2, 4]))
        contents = [draw(TURNS) for _ in range(turns)]
        made.append(chat(*contents, system=draw(TURNS) if draw(st.integers(0, 3)) == 0 else None))
    return made


@pytest.fixture
def _unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the comparisons at run time, proofs must hold by themselves."""
    monkeypatch.setattr(chats_module._Known, "next_checked", lambda *_: [])


def _labeller(
    template: ChatTemplate, tokenizer: ChatTokenizer, *, by_row: bool = False, learn: Learn = "all_assistant"
) -> ChatLabeller:
    tracer = replace(tracer_of(template, tokenizer, learn), variant=training_variant(template))
    return ChatLabeller(tracer, tokenizer, HuggingFaceEncoder(tokenizer.tokenizer), by_row=by_row)


def _label(labeller: ChatLabeller, made: list[Conversation], prompt: int = 0) -> Labelled | str:
    def row(number: int) -> Row:
        return Row(messages=made[number], tools=None, prompt=prompt, where=f"row {number + 1}")

    try:
        return labeller.label(as_batch(made, prompt), row)
    except UserError as error:
        return str(error)


def _assert_same(one: Labelled | str, other: Labelled | str) -> None:
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    assert one.documents.offsets.tolist() == other.documents.offsets.tolist()
    for name in ("ids", "learned", "control"):
        assert np.array_equal(getattr(one.documents, name), getattr(other.documents, name)), name
    assert one.controls.tolist() == other.controls.tolist()
    assert one.trimmed.tolist() == other.trimmed.tolist()


def _skeletons(labeller: ChatLabeller) -> int:
    return sum(len(known.skeletons) for known in labeller._known.values())


FEW = ["llama3_1", "qwen2_5_training", "qwen3", "gptoss", "gemma4"]


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("name", corners(NAMES, FEW))
def test_skeletons_of_real_templates_give_what_the_template_gives(name: str, tokenizer: ChatTokenizer) -> None:
    template = compiled(source(name), tokenizer)
    one, other = _labeller(template, tokenizer), _labeller(template, tokenizer, by_row=True)

    @settings(max_examples=3)
    @given(conversations())
    def compare(made: list[Conversation]) -> None:
        _assert_same(_label(one, made), _label(other, made))

    compare()


PROVED = [
    name for name in NAMES if name.startswith(("qwen", "llama", "phi", "cohere", "gemma3", "lfm", "glm", "gptoss"))
]


@pytest.mark.parametrize("name", corners(PROVED, FEW))
def test_templates_of_well_known_models_are_proved(name: str, tokenizer: ChatTokenizer) -> None:
    labeller = _labeller(compiled(source(name), tokenizer), tokenizer)
    made = [chat("one", "two"), chat("three", "four")]
    assert isinstance(_label(labeller, made), Labelled)
    assert _skeletons(labeller) == 1


TURN = "{% for m in messages %}<|{{ m.role }}|>%s<|end|>{% endfor %}"
# § is the content of a message.
LOOKING = {
    "length": "{{ § }}{{ § | length }}",
    "upper": "{{ § | upper }}{{ § }}",
    "method upper": "{{ §.upper() }}{{ § }}",
    "slice": "{{ §[:2] }}{{ § }}",
    "item": "{{ §[0] }}{{ § }}",
    "iteration": "{% for c in § %}{{ c }}{% endfor %}",
    "contains": "{% if 'a' in § %}A{% endif %}{{ § }}",
    "contained": "{% if § in 'abc' %}A{% endif %}{{ § }}",
    "contained in a list": "{% if § in ['a', 'b'] %}A{% endif %}{{ § }}",
    "equality": "{% if § == 'a' %}A{% elif 'b' == § %}B{% endif %}{{ § }}",
    "inequality": "{% if § != 'a' %}A{% endif %}{{ § }}",
    "order": "{% if § > 'a' %}A{% endif %}{{ § }}",
    "two contents": "{% if § == messages[0].content %}A{% endif %}{{ § }}",
    "strung": "{{ 'a' ~ § ~ 1 ~ none }}",
    "added": "{{ ('a' + §) + 'b' }}",
    "multiplied": "{{ § * 2 }}",
    "formatted": "{{ '%s!' % § }}{{ '{}'.format(§) }}{{ '%s' | format(§) }}",
    "formatted in a list": "{{ '%s!' | format([§]) }}{{ § }}",
    "printed in a list": "{{ [§] }}{{ § }}",
    "number": "{{ § | int }}{{ § | float(2) }}{{ § }}",
    "json": "{{ § | tojson }}{{ m | tojson }}{{ § }}",
    "joined": "{{ [§, 'b'] | join('-') }}",
    "macro": "{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(§) }}{{ f(§) | trim }}{{ f(§) | length }}",
    "trimmed macro": "{% macro f(x) %} {{ x }} {% endmacro %}{{ f(§) | trim }}",
    "set block": "{% set t %} {{ § }}\n{% endset %}{{ t | trim }}{{ t.strip('a') }}{{ t.lstrip() }}{{ t.rstrip() }}",
    "filter block": "{% filter trim %} {{ § }} {% endfilter %}",
    "filter block upper": "{% filter upper %}{{ § }}{% endfilter %}{{ § }}",
    "stripped": "{{ §.strip() }}{{ §.lstrip('a') }}{{ §.rstrip('\n') }}{{ §.strip('ab') }}",
    "stripped sum": "{{ (' ' + § + ' ').strip() }}{{ ('a' + § + messages[0].content).strip('a') }}",
    "emptied by stripping": "{% if § | trim %}A{% else %}B{% endif %}{{ § }}",
    "starts": "{% if §.startswith('a') %}A{% endif %}{% if §.endswith('b') %}B{% endif %}{{ § }}",
    "sum starts": "{% set t = 'a' + § %}{% if t.startswith('ab') %}A{% endif %}{% if 'ab' in t %}B{% endif %}{{ t }}",
    "split": "{{ §.split('a')[-1] }}{{ § }}",
    "split at spaces": "{{ §.split() | length }}{{ § }}",
    "replaced": "{{ § | replace('a', 'b') }}{{ §.replace('b', 'c') }}{{ § }}",
    "namespace": "{% set ns = namespace(t='') %}{% set ns.t = ns.t + § %}{{ ns.t }}",
    "changed": "{% if loop.changed(§) %}A{% endif %}{{ § }}",
    "default": "{{ § | default('x', true) }}{{ § or 'y' }}{{ § and 'z' }}",
    "tests": "{% if § is string and § is not mapping and § is iterable %}{{ § }}{% endif %}"
    "{{ § is number }}{{ § is none }}{{ § is sequence }}{{ § is defined }}",
    "test lower": "{{ § is lower }}{{ § is eq('a') }}{{ § is in(['a']) }}{{ § }}",
    "attribute": "{{ §.parts }}{{ §._parts }}{{ § }}",
    "key": "{{ {'a': 1}[§] }}{{ § }}",
    "unique": "{{ [§, §] | unique | list | length }}{{ § }}",
    "sorted": "{{ messages | map(attribute='content') | sort | first }}{{ § }}",
    "selected": "{{ messages | selectattr('content', 'equalto', 'a') | list | length }}{{ § }}",
    "escaped": "{{ § | e }}{{ § is escaped }}{{ § }}",
    "urlencoded": "{{ § | urlencode }}{{ § }}",
    "reversed": "{{ § | reverse }}{{ § }}",
    "twice": "{{ § }}-{{ § }}",
    "reordered": "{{ messages[-1].content }}{{ § }}",
    "adjacent": "{{ § }}{{ § }}",
    "half a control token before": "<|im_{{ § }}",
    "half a control token behind": "{{ § }}im_end|>",
    "inside a control token": "{{ § }}|im_{{ § }}",
    "private": "\U000f0000{{ § }}",
    "noncharacter": "\ufdd0{{ § }}",
}


@pytest.mark.usefixtures("_unchecked")
@pytest.mark.parametrize("name", LOOKING)
@pytest.mark.parametrize("marked", [True, pytest.param(False, marks=pytest.mark.long)])
def test_a_template_that_looks_at_contents_is_seen_through_or_not_trusted(
    name: str, marked: bool, tokenizer: ChatTokenizer
) -> None:
    body = LOOKING[name].replace("§", "m.content")
    prompt = "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    if marked:
        body = "{% if m.role == 'assistant' %}{% generation %}B{% endgeneration %}{% else %}B{% endif %}".replace(
            "B", body
        )
    template = compiled(TURN.replace("%s", body) + prompt, tokenizer)
    one, other = _labeller(template, tokenizer), _labeller(template, tokenizer, by_row=True)

    @settings(max_examples=3)
    @given(conversations())
    def compare(made: list[Conversation]) -> None:
        _assert_same(_label(one, made), _label(other, made))

    compare()


def test_a_wrong_skeleton_is_found_out_and_named(tokenizer: ChatTokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    template = compiled(source("qwen2_5_training"), tokenizer)
    one = _labeller(template, tokenizer)
    right = chats_module.Slot.fill
    # Wrong only where a content is long, which the first row's is not.
    monkeypatch.setattr(
        chats_module.Slot,
        "fill",
        lambda slot, contents: right(slot, [[text[:3] for text in each] for each in contents]),
    )
    made = [chat("one", "two")] * 3 + [chat("three", "four")]
    assert isinstance(_label(one, made[:3]), Labelled)
    with pytest.raises(SkeletonDiffers, match="row 2, the template: a skeleton") as caught:
        _label(one, made[2:])
    assert "three" not in str(pickle.loads(pickle.dumps(caught.value)))


@pytest.mark.parametrize("trim", [".strip('.!?')", ".rstrip('.')", " | trim('?')"])
def test_letters_that_a_template_trims_off_are_missed(trim: str, tokenizer: ChatTokenizer) -> None:
    template = compiled(
        TURN.replace("%s", "{% generation %}{{ m.content§ }}{% endgeneration %}").replace("§", trim), tokenizer
    )
    one, other = _labeller(template, tokenizer), _labeller(template, tokenizer, by_row=True)
    made = [chat("Where is the fox??", "In the house...")] * 2
    assert "leaves out the content" in str(_label(other, made))
    _assert_same(_label(one, made), _label(other, made))


def test_a_content_that_is_dropped_beside_a_call_is_named(tokenizer: ChatTokenizer) -> None:
    """Llama 3.1 writes the call alone: its turn cannot be told, and the lost content is why."""
    labeller = _labeller(compiled(source("llama3_1"), tokenizer), tokenizer)
    call = {"type": "function", "function": {"name": "look", "arguments": {"key": "v"}}}
    messages = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": "Wait.", "tool_calls": [call]}]

    def row(number: int) -> Row:
        return Row(messages=messages, tools=None, prompt=0, where="row 1")

    with pytest.raises(BadData, match=r"leaves out the content of message 2 \(assistant\)"):
        labeller.label(Conversations(shapes=[None], contents=[[]]), row)


def test_prompts_of_preferences_are_not_learned(tokenizer: ChatTokenizer) -> None:
    template = compiled(source("qwen2_5_training"), tokenizer)
    one, other = _labeller(template, tokenizer), _labeller(template, tokenizer, by_row=True)
    made = [chat("a", "first", "b", "second"), chat("c", "first", "d", "third")]
    labelled = _label(one, made, prompt=3)
    _assert_same(labelled, _label(other, made, prompt=3))
    assert _skeletons(one) == 1
    assert isinstance(labelled, Labelled)
    for number, answer in enumerate(("second", "third")):
        document = labelled.documents.document(number)
        learned = tokenizer.tokenizer.decode(document.ids[document.learned].tolist(), skip_special_tokens=False)
        assert learned == f"{answer}<|im_end|>\n"


@pytest.mark.parametrize("swallowing", ["lstrip", "rstrip"])
@pytest.mark.usefixtures("_unchecked")
def test_control_tokens_that_take_white_space_take_it_from_skeletons_too(swallowing: str, tmp_path: Path) -> None:
    raw = Tokenizer.from_file(str(make_fake_base(tmp_path) / "tokenizer.json"))
    raw.add_special_tokens(
        [AddedToken(name, special=True, normalized=False, **{swallowing: True}) for name in ("<|u|>", "<|e|>")]
    )
    tokenizer = ChatTokenizer(raw, {"eos_token": "<|e|>"})
    text = "{% for m in messages %}<|u|>\n{% generation %}{{ m.content }} <|e|>\n{% endgeneration %}{% endfor %}"
    template = compiled(text, tokenizer)
    one, other = _labeller(template, tokenizer), _labeller(template, tokenizer, by_row=True)

    @given(st.lists(st.text("ab \n", min_size=1, max_size=4).filter(str.strip), min_size=2, max_size=8))
    def compare(texts: list[str]) -> None:
        made = [chat(a, b) for a, b in zip(texts[::2], texts[1::2], strict=False)]
        _assert_same(_label(one, made), _label(other, made))

    compare()
    assert _skeletons(one) >= 1
