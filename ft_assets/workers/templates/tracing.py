"""A conversation's rendering with its learned spans: the assistant's turns, each with its end-of-turn token; and proof
that the template renders all of it."""

import bisect
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ft_assets.workers.templates.apart import require_apart
from ft_assets.workers.templates.asked import asked_turns
from ft_assets.workers.templates.calls import lost_call, moved_words
from ft_assets.workers.templates.rendering import Messages, NotRendered, Rendering, Span, Tools
from ft_assets.workers.templates.template import ChatTemplate
from ft_assets.workers.templates.thoughts import loses_thoughts, own_thoughts, with_thought
from ft_resources.errors import BadBase, BadData, UserError

Learn = Literal["all_assistant", "all_assistant_bare", "last_assistant"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Traced:
    """A rendering, the learned spans of its text, and the spans of the template's control tokens.

    ``bare`` counts the turns of the assistant whose thoughts the template drops, ``unasked`` those that stand behind
    other text than their prompt. Neither are learned, unless there are no others.
    """

    rendering: Rendering
    learned: list[Span]
    controls: list[Span]
    bare: int = 0
    unasked: int = 0


@dataclass(frozen=True, kw_only=True)
class Tracer:
    """Renders conversations and labels them.

    Args:
        template: renders the conversations.
        variant: a template with marks that takes over if the turns of ``template`` cannot be located and it renders the
            same text; see ``tokenizers.chat_template``.
        controls: finds the template's control tokens in a rendering (``ChatTokenizer.template_tokens``).
        learn: every turn of the assistant, or only the last. A turn without the thoughts that it had would teach to
            answer without thinking, and one behind other tokens than its prompt's would teach what nobody asks: they
            are learned only if ``all_assistant_bare`` says so.
        end_of_turn: texts of the control tokens that may end a turn.
    """

    template: ChatTemplate
    variant: ChatTemplate | None
    controls: Callable[[Rendering], list[Span]]
    learn: Learn
    end_of_turn: frozenset[str]

    def trace(self, messages: Messages, *, where: str, tools: Tools = None, prompt: int = 0) -> Traced:
        """``messages`` labelled; nothing is learned of the first ``prompt`` ones.

        Raises BadData and BadBase, naming ``where``, as ``ChatTemplate.trace`` does, and BadData for a control token
        that arises where a message meets something else.
        """
        try:
            rendering = self.template.trace(
                messages, where=where, tools=tools, first=prompt, last_only=self.learn == "last_assistant"
            )
        except BadBase as error:
            rendering = self._by_variant(error, messages, where, tools)
        if prompt:
            start = self._end_of_prompt(messages[:prompt], rendering.text, where, tools)
            turns = [turn for turn in rendering.turns if turn[0] >= start]
            rendering = Rendering(text=rendering.text, turns=turns, quoted=rendering.quoted)
        controls = self.controls(rendering)
        require_apart(self.template, rendering, controls, messages, tools, where)
        # Marks may leave out the token after a call whose result follows, as Gemma 4's do.
        marked = self.template.marked
        ends = self.end_of_turn | self.template.probes.called_ends if marked else self.end_of_turn
        learned = learned_spans(rendering, controls, learn=self.learn, end_of_turn=ends, marked=marked)
        if self.template.probes.missing_thought or self.template.probes.closes_thoughts:
            self._require_asked(messages[prompt:], rendering.text, where)
            rendering, learned = with_thought(rendering, learned, self.template.probes.missing_thought, messages)
            controls = self.controls(rendering)
        bare = self._bare(messages, learned, tools, where) if self.template.probes.drops_thoughts else []
        if self.learn != "all_assistant_bare":
            learned = [turn for turn in learned if turn not in bare]
        traced = Traced(rendering=rendering, learned=learned, controls=controls, bare=len(bare))
        if self.learn == "all_assistant_bare":
            return traced
        return self._asked(traced, messages, where=where, tools=tools, prompt=prompt)

    def _asked(self, traced: Traced, messages: Messages, *, where: str, tools: Tools, prompt: int) -> Traced:
        """``traced`` with those turns only that are asked as they are learned; the last one is among them if it can."""
        spoken = [place for place in range(prompt, len(messages)) if messages[place]["role"] == "assistant"]
        turns, last_only = traced.learned, self.learn == "last_assistant"

        def prompt_of(before: Messages) -> str:
            return self.template.render(before, where=where, tools=tools, add_generation_prompt=True)

        kept = asked_turns(prompt_of, messages, traced.rendering.text, turns, spoken[-1:] if last_only else spoken)
        if len(turns) > 1 and turns[-1] not in kept:
            # The earlier turns stand before it as a server shows them.
            last = replace(self, learn="last_assistant").trace(messages, where=where, tools=tools, prompt=prompt)
            if last.learned and not last.unasked:
                return replace(last, bare=traced.bare, unasked=len(turns) - 1)
        # If none is, the doctor names the row.
        return replace(traced, learned=kept or turns, unasked=len(turns) - len(kept))

    def _bare(self, messages: Messages, learned: Sequence[Span], tools: Tools, where: str) -> list[Span]:
        """The learned turns, the assistant's last ones, whose own thoughts are not shown."""

        def render(shown: Messages) -> str:
            return self.template.render(shown, where=where, tools=tools)

        spoken = [place for place, message in enumerate(messages) if message["role"] == "assistant"][-len(learned) :]
        turns = zip(learned, spoken, strict=False)
        return [turn for turn, place in turns if loses_thoughts(render, messages, place)]

    def _by_variant(self, error: BadBase, messages: Messages, where: str, tools: Tools) -> Rendering:
        """The variant's rendering if it equals the template's; otherwise raises ``error``."""
        if self.variant is None:
            raise error
        try:
            rendering = self.variant.trace(messages, where=where, tools=tools)
        except UserError:
            raise error from None
        if rendering.text != self.template.render(messages, where=where, tools=tools):
            raise error
        return rendering

    def _require_asked(self, messages: Messages, text: str, where: str) -> None:
        """Raise BadData if thoughts are shown that no prompt of the template asks for."""
        for message in messages:
            thoughts = own_thoughts(message) if message["role"] == "assistant" else ""
            if thoughts and thoughts in text and self.template.probes.closes_thoughts:
                raise BadData(
                    "an answer has thoughts, but the chat template's generation prompt already closes the thoughts",
                    where=f"{where}, {self.template.name}",
                    remedy="Name a copy of the template in the recipe's chat_template whose generation prompt leaves "
                    "them open, or remove the thoughts from the rows.",
                )

    def _end_of_prompt(self, prompt: Messages, text: str, where: str, tools: Tools) -> int:
        before = self.template.render(prompt, where=where, tools=tools)
        if not text.startswith(before):
            raise BadBase(
                "the chat template renders the prompt differently once an answer follows",
                where=f"{self.template.name}, {where}",
                remedy="Name another template in the recipe's chat_template.",
            )
        return len(before)


def learned_spans(
    rendering: Rendering,
    template_tokens: Sequence[Span],
    *,
    learn: Learn,
    end_of_turn: frozenset[str],
    marked: bool,
) -> list[Span]:
    """The spans of ``rendering.text`` to learn, in order.

    Args:
        template_tokens: spans of control tokens that the template, not a message, wrote, in order.
        learn: every assistant turn, or only the last.
        end_of_turn: texts of the control tokens that may end a turn.
        marked: whether the template marked the turns itself. Its marks are kept, and only extended by an
            end-of-turn token that directly follows; turns derived from prefixes end with their last control token, or
            with an end-of-turn token that follows, perhaps on the next line.

    For ``<|user|>hi<|end|><|assistant|>hello<|end|>\\n`` and the turn ``hello`` this gives ``hello<|end|>``.
    """
    turns = rendering.turns[-1:] if learn == "last_assistant" else rendering.turns
    return [_whole_turn(rendering.text, turn, template_tokens, end_of_turn, marked) for turn in turns]


def _whole_turn(text: str, turn: Span, tokens: Sequence[Span], end_of_turn: frozenset[str], marked: bool) -> Span:
    start, end = turn
    after = bisect.bisect_right(tokens, end, key=lambda token: token[1])
    last = tokens[after - 1] if after and tokens[after - 1][0] >= start else None
    following = tokens[after] if after < len(tokens) else None
    closing = following if following and text[slice(*following)] in end_of_turn else None
    between = text[end : closing[0]] if closing else ""
    if between.strip() or (between and marked):
        closing = None
    if last is not None and not text[last[1] : end].strip() and not (closing and text[slice(*last)] not in end_of_turn):
        return (start, end if marked else last[1])
    return (start, closing[1]) if closing else turn


def require_all_shown(template: ChatTemplate, messages: Messages, tools: Tools, text: str, where: str) -> None:
    """Raise BadData, naming ``where``, if ``text`` lacks something of the conversation that it renders.

    White space around a content may be missing, and so may the reasoning (``… </think>``) of an assistant's turn that
    is not the last; templates of well-known models drop both.
    """
    for index, message in enumerate(messages):
        pieces = [str(message.get("content") or "")]
        if message["role"] == "assistant":
            pieces = re.split(r"</?think>", pieces[0])
            pieces = pieces[-1:] if index + 1 < len(messages) else pieces
        if not all(_is_shown(piece.strip(), text) for piece in pieces):
            raise _lost(template, f"the content of message {index + 1} ({message['role']})", where)
    if tools and _ignored(template, messages, tools, where):
        raise _lost(template, "the definitions of the tools", where)
    if lost := lost_call(template, messages, tools, where):
        raise _lost(template, lost, where)
    if place := moved_words(template, messages, tools, where):
        raise BadData(
            f"the chat template shows the text of message {place}, which also has tool calls, after the next message",
            where=f"{where}, {template.name}",
            remedy="Name another template in the recipe's chat_template, or remove the text beside the calls from the "
            "row.",
        )


def _is_shown(piece: str, text: str) -> bool:
    return piece in text or any(json.dumps(piece, ensure_ascii=flag)[1:-1] in text for flag in (False, True))


def _ignored(template: ChatTemplate, messages: Messages, tools: Tools, where: str) -> bool:
    """Whether a tool's name is shown no more often than without tools."""
    text = template.render(messages, where=where, tools=tools)
    try:
        without = template.render(messages, where=where)
    except NotRendered:
        # A template that refuses the conversation without them uses them.
        without = ""
    names = [str(tool.get("function", tool).get("name", "")) for tool in tools or ()]
    return not all(text.count(name) > without.count(name) for name in names if name) or text == without


def _lost(template: ChatTemplate, what: str, where: str) -> BadData:
    return BadData(
        f"the chat template leaves out {what}, so the model would not learn from what the row says",
        where=f"{where}, {template.name}",
        remedy="Name a template that shows it in the recipe's chat_template, or remove it from the row.",
    )
