"""``packing.end_of_turn``: templates that leave the last answer open teach the model to stop."""

import json
import re
from pathlib import Path

import jinja2
import pytest
import yaml
from tokenizers import AddedToken

from ft_assets.settings.recipe.end_of_turn import with_end_of_turn, without_end_of_turn
from ft_assets.workers.packs.doctor.endings import turn_ends, unlearned_ends
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.chat_template import load_template, reference_template, template_text
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase
from tests.workers.packs.conftest import Conversation, chat
from tests.workers.packs.templates.public import expected
from tests.workers.packs.templates.templates import learned, make_tokenizer, tracer_of
from tests.workers.packs.templates.test_skeletons import _assert_same, _label, _labeller, _skeletons

# The next turn's token ends an answer, as in GLM-4; nothing follows the last.
GLM = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ '<|channel|>\n' }}{% elif m.role == 'assistant' %}"
    "{{ '<|start|>\n' }}{% else %}{{ '<|turn>\n' }}{% endif %}{{ m.content or m.tool_calls[0].function | tojson }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|start|>\n' }}{% endif %}"
)
# The end of a turn comes with the next one, as in Qwen1.5.
QWEN = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content }}"
    "{% if not loop.last or add_generation_prompt %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}\n"
)
# The next question ends an answer, and the prompt for another answer too, as in Apertus.
APERTUS = (
    "{% for m in messages %}{% if m.role == 'assistant' %}{{ '<|assistant_start|>' + m.content }}{% else %}"
    "{{ '<|assistant_end|>' if not loop.first }}{{ '<|user_start|>' + m.content + '<|user_end|>' }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant_start|>' }}{% endif %}"
)
OPEN = {
    "glm": (GLM, ["<|turn>", "<|channel|>"]),
    "qwen": (QWEN, ["<|im_end|>"]),
    "apertus": (APERTUS, ["<|assistant_end|>"]),
}
CALL = {"id": "a", "type": "function", "function": {"name": "note", "arguments": {"text": "It."}}}
CALLED: Conversation = [
    {"role": "user", "content": "Note it."},
    {"role": "assistant", "content": "", "tool_calls": [CALL]},
    {"role": "tool", "content": "done"},
    {"role": "assistant", "content": "Noted."},
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> ChatTokenizer:
    tokenizer = make_tokenizer(tmp_path_factory.mktemp("base"))
    names = [f"<|{role}_{edge}|>" for role in ("user", "assistant") for edge in ("start", "end")]
    tokenizer.tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in names])
    return ChatTokenizer(tokenizer.tokenizer, {**tokenizer.named, "eos_token": "<|endoftext|>"})


def folder_with(source: str, tmp_path: Path) -> Path:
    (tmp_path / "chat_template.jinja").write_text(source, encoding="utf-8")
    return tmp_path


def ended(name: str, tokenizer: ChatTokenizer, tmp_path: Path) -> ChatTemplate:
    source, ends = OPEN[name]
    return load_template(folder_with(source, tmp_path), tokenizer, with_end_of_turn(None, ends))


@pytest.mark.parametrize(
    ("name", "messages", "turns"),
    [
        ("glm", chat("Hi?", "Hello."), ["Hello.<|turn>"]),
        ("glm", chat("Hi?", "Hello.", "And?", "So."), ["Hello.<|turn>", "So.<|turn>"]),
        ("glm", CALLED, ['{"name": "note", "arguments": {"text": "It."}}<|channel|>', "Noted.<|turn>"]),
        ("apertus", chat("Hi?", "Hello."), ["Hello.<|assistant_end|>"]),
        ("apertus", chat("Hi?", "Hello.", "And?", "So."), ["Hello.<|assistant_end|>", "So.<|assistant_end|>"]),
        ("qwen", chat("Hi?", "Hello."), ["Hello.<|im_end|>"]),
        ("qwen", chat("Hi?", "Hello.", "And?", "So."), ["Hello.<|im_end|>", "So.<|im_end|>"]),
    ],
)
def test_each_answer_is_learned_with_its_end(
    name: str, messages: Conversation, turns: list[str], tokenizer: ChatTokenizer, tmp_path: Path
) -> None:
    assert learned(tracer_of(ended(name, tokenizer, tmp_path), tokenizer), messages) == turns


@pytest.mark.parametrize("name", OPEN)
def test_without_the_setting_no_last_answer_has_an_end(name: str, tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    template = load_template(folder_with(OPEN[name][0], tmp_path), tokenizer, None)
    assert learned(tracer_of(template, tokenizer), chat("Hi?", "Hello.")) == ["Hello."]


@pytest.mark.parametrize("name", OPEN)
def test_the_prompt_of_a_generation_stays_as_it_was(name: str, tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    own = load_template(folder_with(OPEN[name][0], tmp_path), tokenizer, None)
    for messages in (chat("Hi?"), chat("Hi?", "Hello.", "And?")):
        both = (own, ended(name, tokenizer, tmp_path))
        assert len({each.render(messages, where="", add_generation_prompt=True) for each in both}) == 1


@pytest.mark.parametrize("name", OPEN)
def test_the_doctor_and_evaluations_know_the_ends(name: str, tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    template, ends = ended(name, tokenizer, tmp_path), OPEN[name][1]
    assert template.probes.ends == {"<|endoftext|>", *ends}
    assert turn_ends(template, tokenizer) >= {tokenizer.special_ids[end] for end in ends}
    assert unlearned_ends(template, tokenizer) == set()


@pytest.mark.parametrize("name", OPEN)
def test_skeletons_know_the_ends(name: str, tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    template = ended(name, tokenizer, tmp_path)
    made = [chat(f"question {number}", f"answer {number}", "and", "so") for number in range(5)]
    labeller = _labeller(template, tokenizer)
    _assert_same(_label(labeller, made), _label(_labeller(template, tokenizer, by_row=True), made))
    assert _skeletons(labeller) == 1


def test_a_recipes_own_template_keeps_its_text(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    folder = folder_with("{{ messages[0].content }}", tmp_path)
    text = with_end_of_turn(QWEN, ["<|im_end|>"])
    assert without_end_of_turn(text) == (QWEN.removesuffix("\n"), ("<|im_end|>",))
    tracer = tracer_of(load_template(folder, tokenizer, text), tokenizer)
    assert learned(tracer, chat("a", "b")) == ["b<|im_end|>"]
    assert template_text(folder, text) == text


def test_the_exported_template_is_whole(tokenizer: ChatTokenizer, tmp_path: Path) -> None:
    """A server that knows nothing of the setting renders what was trained."""
    text = template_text(folder_with(GLM, tmp_path), with_end_of_turn(None, OPEN["glm"][1]))
    assert text is not None
    plain = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(text)
    messages = chat("Hi?", "Hello.")
    ours = ended("glm", tokenizer, tmp_path).render(messages, where="")
    assert (
        plain.render(messages=messages, add_generation_prompt=False) == ours == "<|turn>\nHi?<|start|>\nHello.<|turn>"
    )


def test_a_training_variant_is_compared_with_the_ended_template_of_the_base(
    tokenizer: ChatTokenizer, tmp_path: Path
) -> None:
    marked = QWEN.replace("m.content }}", "'' }}{% generation %}{{ m.content }}{% endgeneration %}")
    override = with_end_of_turn(marked, ["<|im_end|>"])
    reference = reference_template(folder_with(QWEN, tmp_path), tokenizer, override)
    assert reference.render(chat("a", "b"), where="").endswith("b<|im_end|>")
    assert not reference.marked


@pytest.mark.parametrize(
    ("source", "ends", "words"),
    [
        (QWEN, ["<|eot|>"], "the base's tokenizer has no control token <|eot|>"),
        (
            QWEN.replace("not loop.last or add_generation_prompt", "true"),
            ["<|im_end|>"],
            "ends a last answer with <|im_",
        ),
    ],
)
def test_an_end_that_cannot_be_is_refused(
    source: str, ends: list[str], words: str, tokenizer: ChatTokenizer, tmp_path: Path
) -> None:
    with pytest.raises(BadBase, match=words.replace("|", r"\|")) as raised:
        load_template(folder_with(source, tmp_path), tokenizer, with_end_of_turn(None, ends))
    assert raised.value.where == "packing.end_of_turn"


def test_names_of_tokens_are_json_in_the_text() -> None:
    ends = ['<"end\\">', "<fin é>"]
    text = with_end_of_turn(None, ends)
    assert without_end_of_turn(text) == (None, tuple(ends))
    assert json.dumps(ends, ensure_ascii=False) in str(text)


def test_the_page_on_bases_names_what_public_templates_are_tried_with() -> None:
    """``public_templates.json`` has the same values, and ``test_public`` shows that they label right."""
    page = Path("docs/how-to/bases.md").read_text(encoding="utf-8").replace("\\|", "|")
    said = {name: yaml.safe_load(ends) for name, ends in re.findall(r"^\| (.+?) \| `(\[.+?\])`", page, re.MULTILINE)}
    tried = {name: each["end_of_turn"] for name, each in expected().items() if "end_of_turn" in each}
    for name, where in {"GLM-4.5 to 5": "GLM-5", "GLM-4": "glm-4-9b-chat", "Apertus": "Apertus-8B-Instruct"}.items():
        (found,) = [ends for each, ends in tried.items() if each.endswith(where)]
        assert said[name] == found, name
    assert said["Qwen1.5"] == OPEN["qwen"][1]
