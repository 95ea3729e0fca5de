"""Turns are learned behind exactly what they are asked behind: in documents of their own, where one cannot hold all."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from ft_assets.workers.evals.chat_prompts import ChatPrompts
from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.report import pack_warnings
from ft_assets.workers.templates.asked import asked_turns
from ft_assets.workers.templates.rendering import Messages
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import BadData
from ft_resources.worker_context import WorkResult
from tests.workers.packs.conftest import Workbench, chat
from tests.workers.packs.templates.templates import compiled, learned, tracer_of
from tests.workers.packs.templates.test_thoughts import OPENS, THINK

# As Qwen3.5's: thoughts are dropped from the history, and the prompt opens them.
DROPS = OPENS.replace("{{ m.content }}", "{{ m.content if loop.last else m.content.split('</think>')[-1] }}")
TALK = chat("one?", "first", "two?", "second", "three?", "third")


def _documents(pack: Pack) -> list[tuple[int, list[int], list[bool]]]:
    """Row, ids and labels of each document, in the order of the rows and their turns."""
    found = []
    for window in range(len(pack)):
        row = pack.read(range(window, window + 1))
        for place, (start, end) in enumerate(pairwise(offsets_of(row.document_lengths).tolist())):
            example, piece = int(row.examples[place]), int(row.pieces[place])
            found.append(((example, piece), row.input_ids[start:end].tolist(), row.learned[start:end].tolist()))
    return [(pack.example_row(key[0]), ids, learned) for key, ids, learned in sorted(found)]


def _failed(result: WorkResult) -> list[str]:
    evidence = json.loads((result.folder / "evidence" / "doctor.json").read_text())
    return [check["detail"] for check in evidence["checks"] if not check["passed"]]


@pytest.mark.parametrize("template", [OPENS, DROPS, THINK], ids=["opens", "opens and drops", "closes"])
def test_each_turn_of_a_row_is_learned_behind_the_prompt_of_its_evaluation(workbench: Workbench, template: str) -> None:
    rows = [TALK, chat("one?", "only")]
    result = workbench.build(workbench.dataset(rows, rows[:1]), chat_template=template, max_length=256)
    assert _failed(result) == []
    tokenizer = ChatTokenizer.load(workbench.base_folder)
    prompts = ChatPrompts(workbench.base_folder, tokenizer, template)
    made = _documents(Pack.open(result.folder, "train"))
    asked = [(1, TALK[:1]), (1, TALK[:3]), (1, TALK[:5]), (2, rows[1][:1])]
    assert [row for row, _, _ in made] == [row for row, _ in asked]
    for (_, ids, labels), (_, messages), answer in zip(made, asked, ("first", "second", "third", "only"), strict=True):
        head = prompts.prompt(messages, "row 1")
        assert ids[: len(head)] == head
        assert labels == [False] * len(head) + [True] * (len(ids) - len(head))
        taught = tokenizer.tokenizer.decode(ids[len(head) :], skip_special_tokens=False)
        assert taught.removeprefix("</think>").strip() == f"{answer}<|end|>"
    (told,) = pack_warnings(result.facts)
    assert told.startswith("2 training rows are 4 documents, one for each turn")


def test_with_a_document_for_each_turn_no_thoughts_are_lost(workbench: Workbench) -> None:
    row = chat("one?", "<think>\nmm\n</think>first", "two?", "<think>\nnn\n</think>second")
    result = workbench.build(workbench.dataset([row], [row]), chat_template=DROPS, max_length=256)
    assert _failed(result) == []
    decode = ChatTokenizer.load(workbench.base_folder).tokenizer.decode
    taught = [
        decode(np.array(ids)[learned].tolist(), skip_special_tokens=False)
        for _, ids, learned in _documents(Pack.open(result.folder, "train"))
    ]
    assert taught == ["mm\n</think>first<|end|>", "nn\n</think>second<|end|>"]
    assert (result.facts["bare"], result.facts["unasked"]) == (0, 0)


def test_a_row_with_a_turn_that_is_too_long_stays_or_goes_as_a_whole(workbench: Workbench) -> None:
    rows = [chat("one?", "only"), chat("two?", "first", f"{'long ' * 30}?", "second")]
    dataset = workbench.dataset(rows, rows[:1])
    result = workbench.build(dataset, chat_template=OPENS, overlong="drop", max_length=80)
    assert _failed(result) == []
    assert (result.facts["documents"], result.facts["dropped_rows"]) == (1, [2])
    # The question loses its end in the documents that have it.
    shortened = workbench.build(dataset, chat_template=OPENS, overlong="truncate", max_length=80)
    assert _failed(shortened) == []
    assert (shortened.facts["documents"], shortened.facts["shortened_rows"]) == (3, [2])
    with pytest.raises(BadData, match="1 example is longer than 80 tokens; the longest, row 2"):
        workbench.build(dataset, chat_template=OPENS, max_length=80)


def test_a_greeting_that_nobody_asks_for_is_left_out_where_turns_have_documents_of_their_own(
    workbench: Workbench,
) -> None:
    row = [{"role": "assistant", "content": "Welcome."}, *chat("one?", "first")]
    result = workbench.build(workbench.dataset([row], [row]), chat_template=OPENS, max_length=256)
    assert _failed(result) == []
    assert (result.facts["documents"], result.facts["unasked"]) == (1, 1)


# As the marks of TRL's copy of DiffusionGemma: behind a result, a header that no prompt has stands outside of them.
BEHIND = (
    "{% for m in messages %}<|{{ m.role }}|>{% if m.role == 'assistant' %}{% generation %}{{ m.content }}"
    "{% for c in m.tool_calls or () %}{{ c.function.name }}{{ c.function.arguments | tojson }}{% endfor %}<|end|>"
    "{% endgeneration %}{% else %}{{ m.content }}<|end|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt and messages[-1].role == 'user' %}<|assistant|>{% endif %}"
)


def test_a_turn_that_no_prompt_asks_for_as_it_stands_is_left_out_and_told(tokenizer: ChatTokenizer) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": "sky"}}}
    messages: Messages = [
        {"role": "user", "content": "Blue?"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "yes", "tool_call_id": "c1"},
        {"role": "assistant", "content": "It is."},
    ]
    tracer = tracer_of(compiled(BEHIND, tokenizer), tokenizer)
    assert learned(tracer, messages) == ['look{"at": "sky"}<|end|>']
    assert tracer.trace(messages, where="row 1").unasked == 1
    (told,) = pack_warnings({"unasked": 1})
    assert told.startswith("No prompt asks for 1 training turn as they stand")
    # Alone, it is learned, and the doctor names the row.
    alone = replace(tracer, learn="last_assistant").trace(messages, where="row 1")
    assert (len(alone.learned), alone.unasked) == (1, 1)


def test_in_a_long_conversation_one_turn_that_is_asked_otherwise_makes_all_be_looked_at() -> None:
    messages: Messages = chat(*(f"{place} " for place in range(40)))
    text = "".join(message["content"] for message in messages)
    places = list(range(1, 40, 2))
    turns = [(text.index(f"{place} "), text.index(f"{place} ") + 2) for place in places]

    def prompt_of(before: Messages, odd: int | None = None) -> str:
        return "".join(message["content"] for message in before) + "?" * (len(before) in (odd, 21))

    assert asked_turns(lambda before: prompt_of(before)[: 21 * 40], messages, text, turns, places)[:3] == turns[:3]
    assert turns[10] in asked_turns(prompt_of, messages, text, turns, places)
    left = asked_turns(lambda before: prompt_of(before, odd=39), messages, text, turns, places)
    assert [turn for turn in turns if turn not in left] == [turns[10], turns[19]]
