"""Pairs as other programs write them: a conversation, Alpaca's fields or a request, and two answers."""

from collections.abc import Callable
from typing import Any

from ft_assets.workers.datasets.forms.convert import Converted, read_instruction, read_system
from ft_assets.workers.datasets.forms.preference import DIALOGUE_START, read_pair
from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem
from ft_assets.workers.datasets.forms.switches import refuse_switches
from ft_assets.workers.datasets.forms.texts import TextReader
from ft_assets.workers.datasets.forms.tools import read_tools
from ft_assets.workers.datasets.forms.turns import SHAREGPT_ROLES

Values = Callable[[str], Any]
"""Returns a row's value for a field of the form, or None."""


def go_on_from_messages(value: Values) -> bool:
    """Whether the answers continue ``messages``."""
    return _awaits_the_assistant(value("messages"))


def go_on_from_conversations(value: Values) -> bool:
    """Whether the answers continue ``conversations``."""
    return _awaits_the_assistant(value("conversations"))


def _awaits_the_assistant(turns: Any) -> bool:
    last = turns[-1] if isinstance(turns, list) and turns else None
    speaker = last.get("from", last.get("role")) if isinstance(last, dict) else None
    return isinstance(speaker, str) and SHAREGPT_ROLES.get(speaker) in ("user", "tool")


def read_continued(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """A conversation in ``messages`` or ``conversations``, and the answers that continue it."""
    prompt = value["messages"] if "messages" in value else value["conversations"]
    if not isinstance(prompt, list):
        raise RowProblem(Reason.WRONG_TYPE, "messages", "this should be a list of turns")
    _read(value, prompt, value["chosen"], value["rejected"], result, texts)


def answer_an_instruction(value: Values) -> bool:
    """Whether the answers are to Alpaca's instruction: there is no other prompt, and they are not conversations."""
    answers = (value("chosen"), value("rejected"))
    alone = all(isinstance(one, str) and not one.startswith(DIALOGUE_START) for one in answers)
    return alone and value("prompt") is None


def read_instructed(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """Alpaca's instruction and input, and two answers."""
    _read(value, read_instruction(value, texts), value["chosen"], value["rejected"], result, texts)


def answer_a_request(value: Values) -> bool:
    """Whether the answers are to a request of OpenAI's API."""
    return isinstance(value("input"), dict)


def read_openai(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """OpenAI's preference format: a request in ``input``, and the messages of two answers."""
    request = value["input"]
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        raise RowProblem(Reason.WRONG_TYPE, "input.messages", "this should be a list of turns")
    refuse_switches(request, "input")
    _read(request, request["messages"], value["preferred_output"], value["non_preferred_output"], result, texts)


def _read(value: dict[str, Any], prompt: Any, chosen: Any, rejected: Any, result: Converted, texts: TextReader) -> None:
    system = read_system(value, texts).turns
    result.messages, result.chosen, result.rejected = read_pair(prompt, chosen, rejected, system, texts)
    result.tools = read_tools(value.get("tools"), "tools")
