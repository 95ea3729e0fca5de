"""Conversation logs: requests to an API in OpenAI's dialect, with their responses, as gateways write them."""

from typing import Any

from ft_assets.workers.datasets.forms.convert import Converted
from ft_assets.workers.datasets.forms.pairs import Values
from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem
from ft_assets.workers.datasets.forms.switches import refuse_switches
from ft_assets.workers.datasets.forms.texts import TextReader
from ft_assets.workers.datasets.forms.tools import read_tools
from ft_assets.workers.datasets.forms.turns import THOUGHTS, check_order, read_turns

_ANSWER = "response.choices[0]"
# Other fields of a response's message (annotations, refusal, audio) are not part of a turn.
_OF_A_TURN = ("role", "content", "tool_calls", "function_call", *THOUGHTS)
_WHOLE = ("stop", "tool_calls", "function_call", None)


def answers_a_request(value: Values) -> bool:
    """Whether the row is a chat request with its response, not two texts of these names."""
    request, response = value("request"), value("response")
    return isinstance(request, dict) and "messages" in request and isinstance(response, dict)


def read_log(value: dict[str, Any], result: Converted, texts: TextReader) -> None:
    """The request's messages and the first choice's. A failed request, and an answer that was cut off or filtered, is
    a bad row: a policy with ``on_bad_row: drop`` leaves it out."""
    request, response = value["request"], value["response"]
    if not isinstance(request, dict) or not isinstance(request.get("messages"), list):
        raise RowProblem(Reason.WRONG_TYPE, "request.messages", "this should be a list of turns")
    refuse_switches(request, "request")
    choices = response.get("choices") if isinstance(response, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise RowProblem(Reason.WRONG_TYPE, f"{_ANSWER}.message", "the message is missing: the request may have failed")
    if choice.get("finish_reason") not in _WHOLE:
        problem = "the answer is incomplete: it was cut off or filtered"
        raise RowProblem(Reason.WRONG_TYPE, f"{_ANSWER}.finish_reason", problem)
    said = {name: message[name] for name in _OF_A_TURN if message.get(name) is not None}
    asked = read_turns(request["messages"], "request.messages", texts)
    answer = read_turns([said], f"{_ANSWER}.message", texts)
    result.messages = asked.turns + answer.turns
    check_order(result.messages, asked.names + answer.names)
    for name in ("tools", "functions"):
        result.tools = result.tools or read_tools(request.get(name), f"request.{name}")
