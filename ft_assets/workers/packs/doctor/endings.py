"""The control tokens that end the assistant's turns in a template, found by rendering small conversations."""

from typing import Any

from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import UserError

_ANSWER, _NEXT = "It is blue on most days.", "And what is the colour of the sea?"
_USER = {"role": "user", "content": "What is the colour of the sky?"}
_SAYS = {"role": "assistant", "content": _ANSWER}
_CALL = {"type": "function", "id": "call00001", "function": {"name": "note", "arguments": {"text": _ANSWER}}}
_CALLS = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
# Some templates require a system turn, others refuse it.
_OPENINGS: tuple[list[dict[str, Any]], ...] = ([_USER], [{"role": "system", "content": "Be brief."}, _USER])


def turn_ends(template: ChatTemplate, tokenizer: ChatTokenizer) -> frozenset[int]:
    """Ids of the control tokens that end a turn of the assistant: its last, an earlier one, or a tool call.

    In ``…<|start|>assistant<|message|>It is blue.<|end|><|start|>user<|message|>And`` it is ``<|end|>``: the first
    control token after the answer, unless it opens the next turn; after a last answer also the last control token. The
    tokenizer's end-of-text token is always included.
    """
    ends = set(template.end_of_turn())
    for opening in _OPENINGS:
        spoken = _behind_answer(template, tokenizer, [*opening, _SAYS])
        called = _behind_answer(template, tokenizer, [*opening, _CALLS])
        earlier = _behind_answer(template, tokenizer, [*opening, _SAYS, {"role": "user", "content": _NEXT}])
        ends.update(spoken[:1], spoken[-1:], called[-1:])
        # A single control token marks the next turn's role.
        ends.update(earlier[:1] if len(earlier) > 1 else [])
    # A tokenizer may name an end-of-text token that it does not have.
    return frozenset(tokenizer.special_ids[text] for text in ends if text in tokenizer.special_ids)


def _behind_answer(template: ChatTemplate, tokenizer: ChatTokenizer, messages: list[dict[str, Any]]) -> list[str]:
    """The control tokens between the answer and the next question, or the end; none if the template refuses."""
    try:
        text = template.render(messages, where=f"a probe of {template.name}")
    except UserError:
        return []
    _, found, tail = text.rpartition(_ANSWER)
    return [token.group() for token in tokenizer.control.finditer(tail.partition(_NEXT)[0])] if found else []
