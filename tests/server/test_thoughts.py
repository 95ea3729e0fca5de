"""What a model thinks before it answers stands apart from the answer, for users, rollouts and the console."""

from collections.abc import Iterator

import pytest

from tests.e2e.project import Project
from tests.server.chat_world import ASKS, LINE, Line, OwnFleet
from tests.server.conftest import Client
from tests.server.scripted_server import Scripted

# As Qwen3's: empty thoughts stand before an answer without.
QWEN = (
    "{%- for m in messages -%}<|{{ m.role }}|>"
    "{%- if m.role == 'assistant' and '<think>' not in m.content -%}{{- '<think>\\n\\n</think>\\n\\n' -}}{%- endif -%}"
    "{{ m.content }}<|end|>{%- endfor -%}{%- if add_generation_prompt -%}<|assistant|>{%- endif -%}"
)


@pytest.fixture
def engine() -> Iterator[Scripted]:
    made = Scripted()
    yield made
    made.close()


@pytest.fixture
def fleet(line: Line, engine: Scripted) -> OwnFleet:
    made = OwnFleet(line.artifacts, line.base.digest)
    made.add(engine.url)
    return made


@pytest.fixture
def line(project: Project) -> Line:
    made = Line(project)
    made.promote(made.adapter(1, QWEN))
    return made


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        ("<think>\nwhere was it?\n</think>\n\nin the wood", "where was it?", "in the wood"),
        ("<think>\n\n</think>\n\nin the wood", "", "in the wood"),
        ("in the wood", "", "in the wood"),
        ("<think>\nwhere was it?\n</think>\n\n<i>in the wood", "where was it?", "<i>in the wood"),
        (" <thin ice", "", " <thin ice"),
        ("<think>\nwhere was it", "where was it", ""),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_thoughts_are_told_apart_from_the_answer(
    project: Project, client: Client, engine: Scripted, text: str, thoughts: str, answer: str, stream: bool
) -> None:
    engine.write(project.folder / "base", text)
    found = client().chat.completions.create(model=LINE, messages=ASKS, stream=stream, logprobs=True)
    if stream:
        parts = [part.choices[0] for part in found]
        words = [token.token for part in parts for token in (part.logprobs.content if part.logprobs else [])]
        assert "".join(words) == answer
        deltas = [part.delta for part in parts]
        thought = "".join(getattr(each, "reasoning_content", None) or "" for each in deltas)
        assert (thought, "".join(each.content or "" for each in deltas)) == (thoughts, answer)
        return
    (choice,) = found.choices
    assert (getattr(choice.message, "reasoning_content", ""), choice.message.content) == (thoughts, answer)
    assert "".join(token.token for token in choice.logprobs.content) == answer
    assert found.usage.completion_tokens == len(engine.texts)


def test_a_stop_string_in_thoughts_ends_nothing(project: Project, client: Client, engine: Scripted) -> None:
    engine.write(project.folder / "base", "<think>\nthe fox or the dog\n</think>\n\nthe dog and the fox")
    found = client().chat.completions.create(model=LINE, messages=ASKS, stop=" and")
    assert (found.choices[0].message.content, found.choices[0].finish_reason) == ("the dog", "stop")
