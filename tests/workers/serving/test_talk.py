"""A result and its base in this process answer as Transformers and PEFT do, and while they are written."""

from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.serving.prompts import Prompts
from ft_assets.workers.serving.talk import Talk
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.serving.errors import BadRequest, PromptTooLong
from tests.fake_base import CHAT_TEMPLATE, make_fake_base
from tests.workers.serving.world import alone, make_adapter, plain

# A real model answers.
pytestmark = pytest.mark.training

ASKED = [{"role": "user", "content": "where is the fox?"}]
TOOLS = [{"type": "function", "function": {"name": "note", "parameters": {"type": "object"}}}]
WITH_TOOLS = "{%- for tool in tools or [] -%}{{- '<|system|>' + tool.function.name -}}{%- endfor -%}" + CHAT_TEMPLATE
# Thoughts are opened in the generation prompt, and closed by text.
THINKS = CHAT_TEMPLATE.replace("{{- '<|assistant|>' -}}{%- endif -%}", "{{- '<|assistant|><think>\n' -}}{%- endif -%}")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("talk") / "base")


@pytest.fixture(scope="module")
def adapter(base: Path) -> Path:
    return make_adapter(base.parent / "adapter", base, seed=1)


@pytest.fixture(scope="module")
def whole(base: Path) -> Path:
    return make_fake_base(base.parent / "whole", seed=3)


def said(talk: Talk, messages: list[dict[str, Any]] = ASKED, **how: Any) -> tuple[str, str, int]:
    """The answer, why it ended, and in how many parts it came."""
    parts: list[str] = []
    reason = talk.answer(messages, lambda thoughts, text: parts.append(text), **how)
    return "".join(parts), reason, len(parts)


def expected(base: Path, model: Any, most: int, template: str | None = None) -> str:
    tokenizer = ChatTokenizer.load(base)
    ids, _ = alone(model, ChatPrompts(base, tokenizer, template).prompt(ASKED, "here"), most)
    return str(tokenizer.tokenizer.decode([each for each in ids if each != 2], skip_special_tokens=True))


@pytest.mark.parametrize("kind", ["adapter", "whole"])
def test_a_result_and_its_base_answer_token_by_token(base: Path, adapter: Path, whole: Path, kind: str) -> None:
    folder = {"adapter": adapter, "whole": whole}[kind]
    talk = Talk(base, folder, Prompts(base))
    model = plain(base, adapter) if kind == "adapter" else plain(whole)
    for of_base, its in ((False, model), (True, plain(base)), (False, model)):
        text, _, parts = said(talk, of_base=of_base, most=24)
        assert text == expected(base, its, 24)
        # Control tokens have no text.
        assert parts > 1 or len(text) < 2


def test_a_recipes_template_is_that_of_a_candidate(base: Path, adapter: Path) -> None:
    template = CHAT_TEMPLATE.replace("message['content']", "'says: ' + message['content']")
    talk = Talk(base, adapter, Prompts(base, template))
    assert said(talk, most=24)[0] == expected(base, plain(base, adapter), 24, template)


def test_what_is_raised_while_an_answer_is_written_ends_it(base: Path, adapter: Path) -> None:
    told: list[str] = []

    def interrupted(_: str, text: str) -> None:
        told.append(text)
        raise KeyboardInterrupt

    talk = Talk(base, adapter, Prompts(base))
    with pytest.raises(KeyboardInterrupt):
        talk.answer(ASKED, interrupted, of_base=True)
    assert len(told) == 1
    # The adapter is back.
    assert said(talk, most=24)[0] == expected(base, plain(base, adapter), 24)


def test_thoughts_are_told_apart(base: Path, adapter: Path) -> None:
    talk = Talk(base, adapter, Prompts(base, THINKS))
    told: list[tuple[str, str]] = []
    reason = talk.answer(ASKED, lambda *part: told.append(part), most=12)
    assert reason == "length"
    assert any(thoughts for thoughts, _ in told)
    assert not any(text for _, text in told)


def test_a_text_is_continued_without_a_template(base: Path, adapter: Path, tmp_path: Path) -> None:
    bare = make_fake_base(tmp_path / "bare", with_template=False)
    text, _, parts = said(Talk(bare, adapter, Prompts(bare)), most=8)
    tokenizer = ChatTokenizer.load(bare).tokenizer
    ids, _ = alone(plain(bare, adapter), tokenizer.encode(ASKED[0]["content"]).ids, 8)
    assert text == tokenizer.decode([each for each in ids if each != 2], skip_special_tokens=True)
    assert parts > 1


@pytest.mark.parametrize(
    ("head", "tools", "what"),
    [([], TOOLS, "tools"), ([{"role": "system", "content": "be brief"}], [], "system prompt")],
)
def test_what_a_text_cannot_be_given_is_refused(tmp_path: Path, head: Any, tools: Any, what: str) -> None:
    prompts = Prompts(make_fake_base(tmp_path / "bare", with_template=False))
    with pytest.raises(BadRequest, match=f"can be given no {what}"):
        prompts.asked([*head, *ASKED], tools=tools)


def test_tools_are_shown_by_a_template_that_has_them_and_refused_by_another(base: Path, adapter: Path) -> None:
    shown = Prompts(base, WITH_TOOLS).chat(ASKED, tools=TOOLS)
    assert len(shown) > len(Prompts(base).chat(ASKED))
    with pytest.raises(BadRequest, match="shows it no tools"):
        Prompts(base).chat(ASKED, tools=TOOLS)
    with pytest.raises(BadRequest, match="should name its function"):
        Prompts(base, WITH_TOOLS).chat(ASKED, tools=[{"type": "function"}])
    said(Talk(base, adapter, Prompts(base, WITH_TOOLS)), tools=TOOLS, most=4)


def test_a_conversation_that_fills_the_context_is_refused(base: Path, adapter: Path) -> None:
    talk = Talk(base, adapter, Prompts(base))
    long = [{"role": "user", "content": "fox " * 70}]
    assert said(talk, long, most=512)[1] in ("length", "stop")
    with pytest.raises(PromptTooLong):
        said(talk, [{"role": "user", "content": "fox " * 85}])
