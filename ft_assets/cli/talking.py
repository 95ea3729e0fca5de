"""A conversation in a terminal: what is asked, and the answers as they come."""

import json
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from rich.console import Console

from ft_assets.cli.tool_calls import calls_in
from ft_resources.errors import UserError, in_sentences
from ft_resources.serving.errors import BadRequest
from ft_resources.shown import shown

_NEW = "/new"


class Talks(Protocol):
    """A result and its base, wherever they are."""

    def answer(
        self,
        messages: Sequence[dict[str, Any]],
        tell: Callable[[str, str], None],
        *,
        tools: Sequence[dict[str, Any]] = (),
        of_base: bool = False,
        most: int = 512,
    ) -> str: ...


class Talking:
    """One conversation.

    Args:
        system: the system prompt, "" for none.
        beside_base: whether the base answers each message too, to the same conversation.
        tools: definitions of what the model may call.
        most: tokens of an answer.
    """

    def __init__(
        self, talk: Talks, *, system: str, beside_base: bool, tools: Sequence[dict[str, Any]], most: int
    ) -> None:
        self._talk, self._beside_base, self._tools, self._most = talk, beside_base, tools, most
        self._head = [{"role": "system", "content": system}] if system else []
        self._turns: list[dict[str, Any]] = []
        self._out, self._aside = Console(soft_wrap=True), Console(stderr=True, soft_wrap=True)

    def go_on(self, input: Callable[[str], str]) -> None:
        """Answer what ``input`` asks for with a prompt, until that raises EOFError."""
        while True:
            try:
                text = input("you> ").strip()
                if text == _NEW:
                    self._turns.clear()
                elif text:
                    self.say(text, input=input)
            except KeyboardInterrupt:
                self._out.line()
            except EOFError:
                self._out.line()
                return
            except UserError as error:
                more = f" {_NEW} begins another conversation." if isinstance(error, BadRequest) else ""
                self._say_aside(f"{in_sentences(error.what, error.remedy)}{more}")

    def say(self, text: str, *, input: Callable[[str], str] | None) -> bool:
        """Show the answers to ``text``, and those to what called tools return, for which ``input`` asks. False if an
        answer was ended by Ctrl-C. Raises UserError, and what ``input`` raises, and forgets the message, if it is not
        answered."""
        before = list(self._turns)
        self._turns.append({"role": "user", "content": text})
        try:
            while True:
                said, whole = self._answer(of_base=False)
                if self._beside_base and whole:
                    whole = self._answer(of_base=True)[1]
                called = self._call_tools(said, input) if input and whole else []
                self._turns += called or [{"role": "assistant", "content": said}]
                if not called:
                    return whole
        except (UserError, EOFError, KeyboardInterrupt):
            self._turns = before
            raise

    def _answer(self, *, of_base: bool) -> tuple[str, bool]:
        """The answer, which is shown as it comes, and whether Ctrl-C let it end by itself."""
        if self._beside_base:
            self._out.out("base    " if of_base else "result  ", style="bold", end="")
        answer = _Answer(self._out, self._aside)
        try:
            ended = self._talk.answer(
                [*self._head, *self._turns], answer.tell, tools=self._tools, of_base=of_base, most=self._most
            )
        except KeyboardInterrupt:
            self._out.line()
            return answer.text, False
        self._out.line()
        if ended == "length":
            self._say_aside(f"cut off after {self._most} tokens: --max-tokens")
        elif not answer.text:
            self._say_aside("it ended without an answer" if answer.thinks else "it ended without a word")
        return answer.text, True

    def _call_tools(self, said: str, input: Callable[[str], str]) -> list[dict[str, Any]]:
        """The turns of an answer's calls of tools and of what they return; none for an answer without."""
        names = {str(tool.get("function", tool).get("name")) for tool in self._tools}
        calls = calls_in(said, names) if names else []
        if not calls:
            return []
        made = [{"id": f"call_{len(self._turns)}_{n}", "type": "function", "function": c} for n, c in enumerate(calls)]
        turns: list[dict[str, Any]] = [{"role": "assistant", "content": "", "tool_calls": made}]
        for call, each in zip(calls, made, strict=True):
            self._say_aside(f"it calls {call['name']} {json.dumps(call['arguments'], ensure_ascii=False)}")
            returned = input(f"{shown(call['name'])} returned> ")
            turns.append({"role": "tool", "tool_call_id": each["id"], "name": call["name"], "content": returned})
        return turns

    def _say_aside(self, text: str) -> None:
        self._aside.out(shown(text), style="dim", highlight=False)


class _Answer:
    """An answer on its way to the terminal; thoughts are dimmed, and no part of what a pipe gets."""

    def __init__(self, out: Console, aside: Console) -> None:
        self._out, self._aside = out, aside
        self.text, self.thinks = "", False

    def tell(self, thoughts: str, text: str) -> None:
        if thoughts:
            self.thinks = True
            self._aside.out(shown(thoughts), style="dim italic", end="", highlight=False)
        if text:
            if self.thinks and not self.text:
                self._aside.line(2)
            self.text += text
            self._out.out(shown(text), end="", highlight=False)
