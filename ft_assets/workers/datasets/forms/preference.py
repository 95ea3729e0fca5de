"""Preference rows: a prompt and two continuations, in any of the known spellings."""

import re
from typing import Any

from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem
from ft_assets.workers.datasets.forms.texts import TextReader
from ft_assets.workers.datasets.forms.turns import Placed, Turn, check_order, read_turns

# Whole conversations in one text, as in Anthropic's hh-rlhf, are recognised only if the text starts like this.
DIALOGUE_START = "\n\nHuman:"
_PROMPT_END = "\n\nAssistant:"
_SPEAKER = re.compile(r"\n\n(Human|Assistant):")


def read_pair(
    prompt: Any, chosen: Any, rejected: Any, system: list[Turn], texts: TextReader
) -> tuple[list[Turn], list[Turn], list[Turn]]:
    """The turns of the prompt, and of the chosen and the rejected continuation, checked.

    ``chosen`` and ``rejected`` are texts or lists of turns. Lists that do not start with the assistant, and texts that
    start with ``\\n\\nHuman:``, are whole conversations. Their common start is then the prompt, and ``prompt``, if
    present, must be the start or the end of it. ``system`` is the row's system turn, if any. Raises RowProblem if the
    two differ before a turn of the assistant, or do not differ at all.
    """
    good, bad = _answer(chosen, "chosen", texts), _answer(rejected, "rejected", texts)
    before = _prompt(prompt, texts) if prompt is not None else None
    whole = good.turns[0].role != "assistant"
    if whole != (bad.turns[0].role != "assistant"):
        problem = "one of chosen and rejected is a whole conversation and the other is an answer"
        raise RowProblem(Reason.WRONG_TYPE, "rejected", problem)
    if before is None and not whole:
        problem = "without a prompt, this should be a whole conversation: turns, or a text '\\n\\nHuman: …'"
        raise RowProblem(Reason.WRONG_TYPE, "chosen", problem)
    if good.turns == bad.turns:
        raise RowProblem(Reason.SAME_ANSWERS, "chosen", "the chosen answer is the same as the rejected one")
    shared = _shared(good.turns, bad.turns) if whole else 0
    if whole:
        start = Placed(good.turns[:shared], good.names[:shared])
        if before is not None and before.turns not in (
            start.turns[: len(before.turns)],
            start.turns[-len(before.turns) :],
        ):
            raise RowProblem(Reason.ROLE_ORDER, "prompt", "chosen and rejected do not begin with this prompt")
        before = start
    assert before is not None
    for answer in (good, bad):
        _check(system, before, Placed(answer.turns[shared:], answer.names[shared:]), answer.names[-1])
    return system + before.turns, good.turns[shared:], bad.turns[shared:]


def _check(system: list[Turn], before: Placed, answer: Placed, last: str) -> None:
    if not answer.turns:
        problem = "one of chosen and rejected is the beginning of the other; they should differ in the assistant's turn"
        raise RowProblem(Reason.ROLE_ORDER, last, problem)
    check_order([*system, *before.turns, *answer.turns], ["system"] * len(system) + before.names + answer.names)
    if answer.turns[0].role != "assistant":
        problem = f"chosen and rejected differ in a turn of {answer.turns[0].role!r}; only the assistant's are compared"
        raise RowProblem(Reason.ROLE_ORDER, f"{answer.names[0]}.role", problem)


def _prompt(value: Any, texts: TextReader) -> Placed:
    if isinstance(value, str) and value.startswith(DIALOGUE_START):
        # "…\n\nAssistant:" at the end is where the answers continue.
        return _dialogue(value.rstrip().removesuffix(_PROMPT_END), "prompt", texts)
    if isinstance(value, list):
        return read_turns(value, "prompt", texts)
    return Placed([Turn("user", texts.text(value, "prompt"))], ["prompt"])


def _answer(value: Any, name: str, texts: TextReader) -> Placed:
    if isinstance(value, str) and value.startswith(DIALOGUE_START):
        return _dialogue(value, name, texts)
    if isinstance(value, (list, dict)):
        return read_turns(value if isinstance(value, list) else [value], name, texts)
    return Placed([Turn("assistant", texts.text(value, name))], [name])


def _dialogue(text: str, name: str, texts: TextReader) -> Placed:
    """The turns written in ``text``: ``\\n\\nHuman: …\\n\\nAssistant: …``, each stripped of outer white space."""
    _, *pieces = _SPEAKER.split(text)
    turns = [
        Turn("user" if speaker == "Human" else "assistant", texts.text(said.strip(), f"{name}[{index}]"))
        for index, (speaker, said) in enumerate(zip(pieces[::2], pieces[1::2], strict=True))
    ]
    return Placed(turns, [f"{name}[{index}]" for index in range(len(turns))])


def _shared(one: list[Turn], other: list[Turn]) -> int:
    """The number of turns that both have in common at the start."""
    count = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        count += 1
    return count
