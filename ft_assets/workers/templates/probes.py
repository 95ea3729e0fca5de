"""What a template does with any conversation, found by rendering a question and an answer.

Some templates end every conversation with the header of the next turn, also without ``add_generation_prompt``, as in
``…<|user|>q<|end|><|assistant|>a<|end|><|assistant|>``. That last token is not part of the answer. A model that learned
it would go on with another turn instead of stopping.
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

from ft_assets.workers.templates.outputs import OutputForm
from ft_assets.workers.templates.rendering import NotRendered
from ft_assets.workers.templates.thoughts import (
    OPENED,
    Thought,
    closes_thoughts,
    missing_thought,
    output_form,
    with_thoughts_apart,
)

QUESTION, ANSWER = "What is the colour of the sky?", "It is blue on most days."
ASKS, SAYS = {"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}
_ASKS_ON = {"role": "user", "content": "And what is the colour of the sea?"}
TWO_TURNS = [ASKS, SAYS, _ASKS_ON, SAYS]
_NAMED = "write_it_down"
_CALL = {"type": "function", "id": "call00001", "function": {"name": "note", "arguments": {"text": ANSWER}}}
CALLS = {"role": "assistant", "content": "", "tool_calls": [_CALL]}
_RESULT = {"role": "tool", "tool_call_id": "call00001", "name": "note", "content": "It was noted."}
_THOUGHT = "The air scatters the light."
_THINKS = {"role": "assistant", "content": f"<think>\n{_THOUGHT}\n</think>\n\n{ANSWER}"}

ID_FORMS = {
    "call{number:05}": "[A-Za-z0-9]{{9}}",
    "functions.{name}:{number}": r"functions\.{name}:\d+",
}
"""Forms of a tool call's id that templates need, and patterns of the ids that have them: Mistral's and Kimi K2's, whose
template writes the id in place of the function's name."""
_USUAL_ID = "call_8rTqQ2Zs0v1XyLwP3aBcDeFg"


def with_text_arguments(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """``message`` with the arguments of its tool calls as JSON text."""
    if not message.get("tool_calls"):
        return message
    calls = []
    for call in message["tool_calls"]:
        function = call["function"]
        text = json.dumps(function["arguments"], ensure_ascii=False)
        calls.append({**call, "function": {**function, "arguments": text}})
    return {**message, "tool_calls": calls}


def with_ids(messages: Sequence[Mapping[str, Any]], form: str) -> list[Mapping[str, Any]]:
    """``messages`` with the ids of tool calls in ``form``, one of ``ID_FORMS``, and their results with the same ids.

    An id that has the form stays. Calls are counted from the first of the conversation, as Kimi K2's are. A result that
    names no call answers the first one without an answer.
    """
    spelled: list[Mapping[str, Any]] = []
    pending: list[tuple[str, str]] = []
    number = 0
    for message in messages:
        changed: dict[str, Any] = {}
        if calls := message.get("tool_calls"):
            pending = []
            for call in calls:
                own, name = str(call.get("id") or ""), call["function"]["name"]
                fits = re.fullmatch(ID_FORMS[form].format(name=re.escape(name)), own)
                pending.append((own, own if fits else form.format(name=name, number=number)))
                number += 1
            changed["tool_calls"] = [{**call, "id": new} for call, (_, new) in zip(calls, pending, strict=True)]
        elif message["role"] == "tool" and pending:
            own = message.get("tool_call_id") or pending[0][0]
            if found := next((pair for pair in pending if pair[0] == own), None):
                pending.remove(found)
                changed["tool_call_id"] = found[1]
        spelled.append({**message, **changed})
    return spelled


class Probes:
    """What small conversations show of a template's ``render``. If it refuses them, for example because it requires a
    system turn, nothing is found; the dataset's rows will show what is wrong.

    Args:
        control: matches every control token.
        eos: the tokenizer's end-of-text token, or "".
        ends: control tokens that the recipe says end a turn.
    """

    def __init__(
        self, render: Callable[..., str], control: re.Pattern[str], eos: str, ends: Sequence[str] = ()
    ) -> None:
        self._given, self._control, self._eos, self._ends = render, control, eos, ends

    @cached_property
    def ends(self) -> frozenset[str]:
        """The control tokens that may end a turn: what follows a last answer, the tokenizer's end of text, and what
        the recipe says."""
        return frozenset(end for end in (self._eos, first_end(self.answered, self._control), *self._ends) if end)

    @cached_property
    def called_ends(self) -> frozenset[str]:
        """``ends``, and the control token that a last tool call ends with."""
        called = self._render(ASKS, with_text_arguments(CALLS) if self.arguments_are_text else CALLS)
        _, shown, after = called.removesuffix(self.appended).rpartition(ANSWER)
        tokens = [token.group() for token in self._control.finditer(after)] if shown else []
        return self.ends.union(tokens[-1:])

    @property
    def after_answer(self) -> str:
        """What is rendered after an answer that ends a conversation."""
        return self.answered.rpartition(ANSWER)[2]

    @cached_property
    def appended(self) -> str:
        """The header of the assistant's next turn, if it is written after every conversation; else ""."""
        after, further = self.after_answer.rstrip(), self._render(ASKS, SAYS, _ASKS_ON).rpartition(ANSWER)[2]
        if after and further.startswith(after):
            # A question follows it, so it is not the header of an answer.
            return ""
        return next_header(self._render(ASKS), self.answered, self._control, self._eos)

    @cached_property
    def missing_thought(self) -> Thought | None:
        """The empty or open thoughts that a generation prompt ends with; None if there are none."""
        after_result = self._render(ASKS, CALLS, _RESULT, prompt=True)
        said = QUESTION, _RESULT["content"]
        return missing_thought((self.asked, after_result), said, self.answered, ANSWER, self._control)

    @cached_property
    def output(self) -> OutputForm:
        """The marks of what a model writes after a prompt of this template."""
        missing = self.missing_thought
        plain = self._before_answer(self.answered)
        thinks = self._before_answer(self._render(ASKS, with_thoughts_apart(_THINKS, self.thoughts_field)))
        opens, shown, closes = thinks.partition(_THOUGHT)
        return output_form(
            plain.removeprefix(missing.plain) if missing else plain,
            (opens, closes) if shown else None,
            opening=missing.end if missing and missing.close else "",
        )

    def _before_answer(self, rendered: str) -> str:
        """What stands between a prompt of QUESTION, without the thoughts that it opens, and ANSWER in ``rendered``."""
        header = self.asked.removesuffix(self.missing_thought.end if self.missing_thought else "")
        before = rendered.rpartition(ANSWER)[0]
        return before.removeprefix(header) if before.startswith(header) else ""

    @cached_property
    def closes_thoughts(self) -> bool:
        """Whether the template asks for answers without thoughts."""
        return closes_thoughts(self.asked)

    @cached_property
    def asked(self) -> str:
        """The rendering of QUESTION with a generation prompt."""
        return self._render(ASKS, prompt=True)

    @cached_property
    def thoughts_field(self) -> str:
        """The field for a message's thoughts if the template renders them otherwise within its content; else ""."""
        within = self._render(ASKS, _THINKS)
        for name in ("reasoning_content", "reasoning", "thinking"):
            apart = self._render(ASKS, with_thoughts_apart(_THINKS, name))
            if _THOUGHT in apart:
                return "" if apart == within else name
        return ""

    @property
    def thinks(self) -> bool:
        """Whether thoughts are more to the template than text of an answer."""
        return bool(self.missing_thought or self.closes_thoughts or self.thoughts_field or self.drops_thoughts)

    @cached_property
    def drops_thoughts(self) -> bool:
        """Whether thoughts of turns before the last question are left out."""
        later = self._render(ASKS, with_thoughts_apart(_THINKS, self.thoughts_field), _ASKS_ON, SAYS)
        return bool(later) and _THOUGHT not in later

    @cached_property
    def arguments_are_text(self) -> bool:
        """Whether tool calls are written only if their arguments are JSON text, as in OpenAI's own messages."""
        return not self._render(ASKS, CALLS) and bool(self._render(ASKS, with_text_arguments(CALLS)))

    @cached_property
    def id_form(self) -> str:
        """The form of ID_FORMS in which ids of tool calls must be, or the function's name is not shown; "" for any."""
        spelled = {form: form.format(name=_NAMED, number=0) for form in ID_FORMS}
        return "" if self._names(_USUAL_ID) else next((form for form in spelled if self._names(spelled[form])), "")

    def _names(self, call_id: str) -> bool:
        """Whether a call with this id is shown with its function's name."""
        function = {"name": _NAMED, "arguments": {"text": ANSWER}}
        called = {**CALLS, "tool_calls": [{**_CALL, "id": call_id, "function": function}]}
        return _NAMED in self._render(ASKS, with_text_arguments(called) if self.arguments_are_text else called)

    @cached_property
    def answered(self) -> str:
        """The rendering of QUESTION and ANSWER."""
        return self._render(ASKS, SAYS)

    def _render(self, *messages: Mapping[str, Any], **how: bool) -> str:
        try:
            return self._given(messages, **how)
        except NotRendered:
            return ""


def first_end(answered: str, control: re.Pattern[str]) -> str:
    """The first control token after the answer in ``answered``, a rendering of QUESTION and ANSWER.

    "" if no control token follows, or if the one that follows opens the next turn.
    """
    before, found, after = answered.rpartition(ANSWER)
    end = control.search(after) if found else None
    return "" if end is None or before.rstrip().endswith(end.group()) else end.group()


def next_header(asked: str, answered: str, control: re.Pattern[str], eos: str) -> str:
    """The header of a further turn at the end of ``answered``, or "".

    It is the common end of ``answered`` and ``asked`` (the rendering of QUESTION alone) without the tokens that end a
    turn. It must also precede the answer, perhaps without its thoughts and followed by control tokens only. ``eos``:
    the tokenizer's end-of-text token, or "".
    """
    middle, _, after = answered.partition(QUESTION)[2].partition(ANSWER)
    asks = control.match(middle)
    place = len(after)
    while place and asked.endswith(after[place - 1 :]):
        place -= 1
    place = next((token.end() for token in control.finditer(after) if token.start() < place < token.end()), place)
    ends = {re.escape(end) for end in (eos, first_end(answered, control)) if end}
    # What ends the question's turn ends the answer's too, unless it is the header's first token.
    for closing in (ends | {re.escape(asks[0])} if asks else ends, ends):
        found = re.match(rf"(?:\s*(?:{'|'.join(sorted(closing))}))*", after[place:]) if closing else None
        header = after[place + (found.end() if found else 0) :]
        before = OPENED.sub("", header)
        _, opens, rest = middle.rpartition(before) if before.strip() else ("", "", "")
        if opens and not control.sub("", rest).strip():
            return header
    return ""
