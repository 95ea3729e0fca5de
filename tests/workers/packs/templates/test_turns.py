"""Turns without marks: as rendering every prefix tells them, in time that grows with the conversation."""

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ft_assets.workers.templates.marks import MARKS
from ft_assets.workers.templates.rendering import Messages, Span, Tools
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.turns import TurnFinder
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadBase, UserError
from tests.workers.packs.conftest import chat
from tests.workers.packs.corners import corners
from tests.workers.packs.templates.templates import CORNERS, NAMES, compiled, source

UNMARKED = [name for name in NAMES if not name.endswith("_training")]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "up", "parameters": {"type": "object"}}}]


class Prefixes:
    """The turns by a rendering of every prefix, and one more with marks for every content: right, in squared time."""

    def __init__(self, template: ChatTemplate, messages: Messages, tools: Tools) -> None:
        self.template, self.messages, self.tools = template, messages, tools
        self.text = self.render(messages)

    def render(self, messages: Messages, prompt: bool = False) -> str:
        return self.template.render(messages, where="row 1", tools=self.tools, add_generation_prompt=prompt)

    def turns(self) -> list[Span]:
        turns = []
        for index, message in enumerate(self.messages):
            if message["role"] != "assistant":
                continue
            before = self.render(self.messages[:index], prompt=True)
            # The opening of thoughts counts as the turn's.
            before = re.sub(r"<think>\s*(</think>\s*)?\Z", "", before)
            if not self.text.startswith(before):
                raise BadBase("without its own generation prompt", where=str(index))
            through = self.render(self.messages[: index + 1])
            end = self.agreed(through)
            content = self.content(index, len(before))
            calls_or_nothing = message.get("tool_calls") or (content is not None and content[0] == content[1])
            rest = self.template.control.sub("", through[end:]).strip()
            if content is None or content[1] > end or (calls_or_nothing and rest):
                if (
                    content is None
                    or content[0] == content[1]
                    or self.text[len(before) : content[0]].strip()
                    or message.get("tool_calls")
                ):
                    raise BadBase("differently depending on what follows", where=str(index))
                end = content[1]
            turns.append((len(before), end))
        return turns

    def content(self, index: int, start: int) -> Span | None:
        content = str(self.messages[index].get("content") or "")
        thoughts = content[: len(content) - len(content.rpartition("</think>")[2])]
        content = content[len(thoughts) :]
        inner = content.strip()
        if not inner:
            return start, start
        opening, closing = [mark for mark in MARKS if mark not in self.text][:2]
        place = content.find(inner)
        padding = content[place + len(inner) :]
        shown = {**self.messages[index], "content": f"{thoughts}{content[:place]}{opening}{inner}{closing}{padding}"}
        try:
            traced = self.render([*self.messages[:index], shown, *self.messages[index + 1 :]])
        except UserError:
            traced = ""
        first, last = start, -1
        if traced.replace(opening, "").replace(closing, "") == self.text:
            places = [found.start() for found in re.finditer(f"[{opening}{closing}]", traced)]
            pairs = [(a - 2 * n, b - 2 * n - 1) for n, (a, b) in enumerate(zip(places[::2], places[1::2]))]  # noqa: B905
            first, last = next((pair for pair in pairs if pair[0] >= start), (start, -1))
        if last < 0:
            first = self.text.find(inner, start)
            last = first + len(inner)
        return None if first < 0 else (first, last + len(padding) * self.text.startswith(padding, last))

    def agreed(self, through: str) -> int:
        if self.text.startswith(through):
            return len(through)
        length = next((i for i, (a, b) in enumerate(zip(through, self.text, strict=False)) if a != b), len(self.text))
        tokens = self.template.control.finditer(self.text)
        return next((m.start() for m in tokens if m.start() < length < m.end()), length)


CONTENTS = st.one_of(
    st.sampled_from(["yes", "a", "t", "<think>\nhm\n</think>\n\nso", " padded \n", "</think>x", "<|im_end|>", "z"]),
    st.text("ab <|>\n🙂", max_size=6),
)


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[dict[str, Any]], Tools]:
    """A conversation of up to 40 messages and more, with steps of tools here and there."""
    messages: list[dict[str, Any]] = []
    if draw(st.booleans()):
        messages.append({"role": "system", "content": draw(CONTENTS)})
    calls = draw(st.sampled_from([0, 0, 1, 3]))
    for _ in range(draw(st.integers(1, 11))):
        messages.append({"role": "user", "content": draw(CONTENTS)})
        for _ in range(draw(st.integers(0, calls))):
            call = {"type": "function", "function": {"name": "look", "arguments": {"key": draw(CONTENTS)}}}
            messages.append({"role": "assistant", "content": draw(st.sampled_from(["", "ok"])), "tool_calls": [call]})
            messages.append({"role": "tool", "content": draw(CONTENTS), "name": "look"})
        messages.append({"role": "assistant", "content": draw(CONTENTS)})
    return messages, TOOLS if calls else None


def _told(find: Any) -> list[Span] | str:
    try:
        turns: list[Span] = find()
    except BadBase as error:
        return "without" if "without its own" in error.what else "differently"
    return turns


@pytest.mark.parametrize("name", corners(UNMARKED, CORNERS))
def test_turns_are_those_of_whole_prefixes(name: str, tokenizer: ChatTokenizer) -> None:
    template = compiled(source(name), tokenizer)

    @settings(max_examples=3)
    @given(rows())
    def compare(row: tuple[list[dict[str, Any]], Tools]) -> None:
        try:
            prefixes = Prefixes(template, *row)
        except UserError:
            return
        finder = TurnFinder(template, row[0], row[1], prefixes.text, "row 1")
        assistants = [index for index, message in enumerate(row[0]) if message["role"] == "assistant"]
        each = _told(lambda: [finder._turn(index) for index in assistants])
        assert _told(finder.turns) == each
        told = _told(prefixes.turns)
        # Where whole prefixes cannot tell a turn, it may be found behind the message before it.
        assert isinstance(told, str) or each == told

    compare()


def _worked(template: ChatTemplate, messages: Messages, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many messages were rendered to find the turns, all renderings together."""
    text = template.render(messages, where="row 1")
    rendered = 0

    class Counting(TurnFinder):
        def _render(self, messages: Messages, *, prompt: bool = False) -> str:
            nonlocal rendered
            rendered += len(messages)
            return super()._render(messages, prompt=prompt)

    assert len(Counting(template, messages, None, text, "row 1").turns()) == len(messages) // 2
    return rendered


@pytest.mark.parametrize("name", ["qwen2_5", "qwen3", "phi3", "gemma3"])
def test_the_work_grows_with_the_conversation_and_not_with_its_square(
    name: str, tokenizer: ChatTokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    template = compiled(source(name), tokenizer)
    few, many = (_worked(template, chat(*map(str, range(n))), monkeypatch) for n in (60, 240))
    assert many < 5 * few


def test_a_template_that_says_otherwise_of_the_whole_prefix_is_believed(tokenizer: ChatTokenizer) -> None:
    # Only of a conversation of 32 messages and more it opens the turn itself.
    text = (
        "{% for m in messages %}<|{{ m.role }}|>{% if messages | length < 32 %}{% endif %}{{ m.content }}<|end|>"
        "{% endfor %}{% if add_generation_prompt %}{% if messages | length < 32 %}<|assistant|>{% endif %}{% endif %}"
    )
    template = compiled(text, tokenizer)
    messages = chat(*map(str, range(60)))
    turns = template.trace(messages, where="row 1").turns
    assert turns == Prefixes(template, messages, None).turns()
    opened = [template.render(messages, where="")[start:end].startswith("<|assistant|>") for start, end in turns]
    assert opened == [index > 32 for index in range(1, 60, 2)]
