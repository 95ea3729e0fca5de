"""The control tokens that end the assistant's turns in a template, found by rendering small conversations."""

from typing import Any

from ft_assets.workers.templates.probes import ANSWER, ASKS, CALLS, SAYS
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.tokenizers.tokenizer import ChatTokenizer
from ft_resources.errors import UserError

_NEXT = "And what is the colour of the sea?"
# Some templates require a system turn, others refuse it.
_OPENINGS: tuple[list[dict[str, Any]], ...] = ([ASKS], [{"role": "system", "content": "Be brief."}, ASKS])


def turn_ends(template: ChatTemplate, tokenizer: ChatTokenizer) -> frozenset[int]:
    """Ids of the control tokens that end a turn of the assistant: its last, an earlier one, or a tool call.

    In ``…<|start|>assistant<|message|>It is blue.<|end|><|start|>user<|message|>And`` it is ``<|end|>``: the first
    control token after the answer, unless it opens the next turn; after a last answer also the last control token. The
    tokenizer's end-of-text token is always included.
    """
    ends = set(template.probes.ends)
    for opening in _OPENINGS:
        spoken, earlier = _after_answers(template, tokenizer, opening)
        called = _after_answer(template, tokenizer, [*opening, CALLS])
        ends.update(spoken[:1], spoken[-1:], called[-1:], earlier[:1])
    return _ids(tokenizer, ends)


def unlearned_ends(template: ChatTemplate, tokenizer: ChatTokenizer) -> frozenset[int]:
    """Ids of the control tokens that end only earlier turns, as gpt-oss's ``<|end|>`` does (the last turn ends with
    ``<|return|>``): no generated answer ends with them, so none should learn them."""
    ends: set[str] = set()
    for opening in _OPENINGS:
        spoken, earlier = _after_answers(template, tokenizer, opening)
        ends.update(set(earlier[:1]) - set(spoken))
    return _ids(tokenizer, ends)


def _ids(tokenizer: ChatTokenizer, texts: set[str]) -> frozenset[int]:
    # A tokenizer may name an end-of-text token that it does not have.
    return frozenset(tokenizer.special_ids[text] for text in texts if text in tokenizer.special_ids)


def _after_answers(
    template: ChatTemplate, tokenizer: ChatTokenizer, opening: list[dict[str, Any]]
) -> tuple[list[str], list[str]]:
    """The control tokens after a last answer, and between an earlier one and the next question."""
    earlier = _after_answer(template, tokenizer, [*opening, SAYS, {"role": "user", "content": _NEXT}])
    # A single control token marks the next turn's role.
    return _after_answer(template, tokenizer, [*opening, SAYS]), earlier if len(earlier) > 1 else []


def _after_answer(template: ChatTemplate, tokenizer: ChatTokenizer, messages: list[dict[str, Any]]) -> list[str]:
    """The control tokens between the answer and the next question, or the end; none if the template refuses."""
    try:
        text = template.render(messages, where=f"a probe of {template.name}")
    except UserError:
        return []
    _, found, tail = text.removesuffix(template.probes.appended).rpartition(ANSWER)
    return [token.group() for token in tokenizer.control.finditer(tail.partition(_NEXT)[0])] if found else []
