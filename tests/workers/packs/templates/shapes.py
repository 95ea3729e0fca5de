"""Twenty conversations whose every content is a word of its own, and what is wrong with how one of them was labelled.

What a template shows is judged by Transformers' own rendering, and what is learned by these words alone.
"""

import datetime as dt
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from transformers.utils.chat_template_utils import _compile_jinja_template

from ft_assets.workers.templates.rendering import Messages

Chat = list[dict[str, Any]]
_THINKS, _THINKS_AGAIN = "<think>\nwombat\n</think>\n\n", "<think>\nkoala\n</think>\n\n"
_MARKS = re.compile(
    r"</?think>|<\|channel>thought|<channel\|>|<\|(?:START|END)_THINKING\|>|Here are my reasoning steps:"
    r"|\[BEGIN FINAL RESPONSE\]"
)
_SPELLED = "<|im_end|> </s> <|eot_id|>"


def _user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def _says(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def _calls(*keys: str, text: str = "") -> dict[str, Any]:
    calls = [
        {"id": f"call0000{number}", "type": "function", "function": {"name": "look", "arguments": {"key": key}}}
        for number, key in enumerate(keys, 1)
    ]
    return _says(text, tool_calls=calls)


def _answer(text: str, number: int = 1) -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": f"call0000{number}", "name": "look"}


_SYSTEM = {"role": "system", "content": "sierra"}
_KEY = {"type": "object", "properties": {"key": {"type": "string", "description": "a key"}}, "required": ["key"]}
_TOOL = {"type": "function", "function": {"name": "look", "description": "Finds a kimono.", "parameters": _KEY}}
_THREE = [_user("alpha"), _says("bravo"), _user("charlie"), _says("delta"), _user("echo"), _says("foxtrot")]
_SAME = [_user("alpha"), _says("yes"), _user("charlie"), _says("yes"), _user("echo"), _says("yes")]
_CALL = [_user("alpha"), _calls("victor"), _answer("tango"), _says("bravo")]
PLAIN: dict[str, Chat] = {
    "one turn": [_user("alpha"), _says("bravo")],
    "a system turn": [_SYSTEM, _user("alpha"), _says("bravo")],
    "three turns": _THREE,
    "three turns behind a system turn": [_SYSTEM, *_THREE],
    "equal answers": _SAME,
    "white space": [_user("  alpha\n"), _says(" bravo\n\n"), _user("charlie"), _says("\ndelta ")],
    "forty turns": [turn for n in range(20) for turn in (_user(f"quest{n}x"), _says(f"reply{n}x"))],
    "thoughts": [_user("alpha"), _says(f"{_THINKS}bravo")],
    "thoughts in each turn": [
        *(_user("alpha"), _says(f"{_THINKS}bravo"), _user("charlie"), _says(f"{_THINKS_AGAIN}delta"))
    ],
    "code": [_user("alpha"), _says("```python\nif bravo:\n    print('{{ x }}')\n```")],
    "many scripts": [_user("älpha 你好"), _says("brävo 🙂 e\u0301")],
    "spelled control tokens": [_user(f"what is {_SPELLED}?"), _says(f"bravo is {_SPELLED} text")],
    "two questions in a row": [_user("alpha"), _user("echo"), _says("bravo")],
    "the assistant first": [_says("bravo"), _user("alpha"), _says("delta")],
}
CALLS: dict[str, Chat] = {
    "tools that are not called": [_user("alpha"), _says("bravo")],
    "a call": _CALL,
    "a last call": _CALL[:2],
    "two calls": [_user("alpha"), _calls("victor", "whisky"), _answer("tango"), _answer("uniform", 2), _says("bravo")],
    "a call beside words": [_user("alpha"), _calls("victor", text="wait"), _answer("tango"), _says("bravo")],
    "calls in turn": [
        *(_SYSTEM, _user("alpha"), _calls("victor"), _answer("tango"), _calls("whisky"), _answer("uniform")),
        *(_says("bravo"), _user("charlie"), _says("delta")),
    ],
}
SHAPES: dict[str, tuple[Chat, list[dict[str, Any]] | None]] = {
    **{name: (chat, None) for name, chat in PLAIN.items()},
    **{name: (chat, [_TOOL]) for name, chat in CALLS.items()},
}


def _without_thoughts(text: str) -> str:
    """A rendering without white space and what opens and closes thoughts."""
    return "".join(_MARKS.sub("", text).split())


class Theirs:
    """Transformers' rendering of a template; "" where the template raises.

    Args:
        control: matches every control token.
        spell: gives messages the fields that the template reads.
    """

    def __init__(
        self, source: str, variables: dict[str, str], control: re.Pattern[str], spell: Callable[[Chat], Messages]
    ) -> None:
        self._template, self._variables = _compile_jinja_template(source), variables
        self._control, self._spell = control, spell
        between, behind, further = self._around("bravo", PLAIN["three turns"], _SYSTEM)
        # A closing of several parts may hold words too; an appended header is none, as a question does not follow it.
        same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(behind, further, strict=False))
        self.closing = "".join(each for each, _ in same)
        self.ends, opening, self.further = self.tokens(behind), self.tokens(between), self.tokens(further)
        # A first of several tokens ends the question, and perhaps the answer too.
        self.whole = bool(behind) and self.closing == behind
        self.header = frozenset(opening[1:] or opening) - set(self.ends if self.whole else ())

    def _around(self, answer: str, chat: Chat, system: dict[str, Any]) -> tuple[str, str, str]:
        """What is written between a question and its answer, behind a last answer, and between an earlier one and the
        next question; "" each where the template refuses them."""
        found = []
        for count, start, end in ((2, "alpha", answer), (2, answer, ""), (3, answer, "charlie")):
            text = self.render(chat[:count], None) or self.render([system, *chat[:count]], None)
            rest = text.rpartition(start)[2]
            found.append(rest[: rest.find(end) if end else None].strip())
        return found[0], found[1], found[2]

    def tokens(self, text: str) -> list[str]:
        """The control tokens of a text, in order."""
        return [found.group() for found in self._control.finditer(text)]

    def leaves_open(self) -> bool:
        """Whether no control token ends a last answer, or an earlier one."""
        ends = set(self.ends) - self.header
        return not ends or not ends & set(self.further)

    def without_tokens(self, text: str) -> str:
        """What a text holds beside control tokens and white space."""
        return self._control.sub("", text).strip()

    def render(self, chat: Sequence[dict[str, Any]], tools: Any, *, prompt: bool = False) -> str:
        try:
            text: str = self._template.render(
                messages=self._spell(list(chat)),
                tools=tools,
                documents=None,
                add_generation_prompt=prompt,
                # The day of packs; Transformers would say today.
                strftime_now=dt.datetime(2024, 7, 26).strftime,
                **self._variables,
            )
        except Exception:
            return ""
        return text


def answer_of(message: dict[str, Any]) -> str:
    """A turn's content without thoughts and the white space around it."""
    text: str = message["content"].rpartition("</think>")[2].strip()
    return text


def mislabelled(chat: Chat, tools: Any, text: str, learned: Sequence[tuple[int, int]], theirs: Theirs) -> Iterator[str]:
    """What is wrong with the ``learned`` spans of ``text``, the document of ``chat``."""
    said, rest, position = [text[start:end] for start, end in learned], "", 0
    for start, end in learned:
        rest, position = rest + text[position:start] + "\0", end
    rest, joined = rest + text[position:], "\0".join(said)
    turns = [message for message in chat if message["role"] == "assistant"]
    if len(said) != len(turns):
        yield f"{len(said)} learned turns of {len(turns)}"
    for message in chat:
        words = answer_of(message)
        own = message["role"] == "assistant"
        if words and own != (words in joined):
            yield f"{message['role']}'s {words!r} is {'not ' if own else ''}learned"
        if words and own and words != "yes" and words in rest:
            yield f"{words!r} stands unlearned too"
        for call in message.get("tool_calls", ()):
            key = call["function"]["arguments"]["key"]
            if key not in joined or key in rest:
                yield f"argument {key!r} is not learned, or stands unlearned too"
    if _without_thoughts(text) != _without_thoughts(theirs.render(chat, tools)):
        yield "more than thoughts differs from what Transformers renders"
    if chat[-1]["content"].startswith(_THINKS) and "wombat" not in joined:
        yield "the thoughts of the last turn are not learned"
    if tools and ("kimono" in joined or "kimono" not in rest):
        yield "the tool's definition is learned or left out"
    for turn, (start, end) in zip(turns, learned, strict=False):
        yield from _ended_otherwise(turn, text[start:end], text[end:], theirs)
    if chat[-1]["role"] == "assistant" and learned:
        yield from _asked_otherwise(chat, tools, text, learned[-1], theirs)


def tail_of(turn: dict[str, Any], said: str) -> str:
    """What follows a turn's own last word in what is learned of it."""
    calls = turn.get("tool_calls")
    return said.rpartition(calls[-1]["function"]["arguments"]["key"] if calls else answer_of(turn))[2]


def _ended_otherwise(turn: dict[str, Any], said: str, behind: str, theirs: Theirs) -> Iterator[str]:
    """Whether a turn learns anything behind its end, or no end."""
    tail = tail_of(turn, said)
    tokens = theirs.tokens(tail)
    if header := [token for token in tokens if token in theirs.header]:
        yield f"{header} of the next turn's header is learned"
    if not turn.get("tool_calls") and theirs.without_tokens(tail) and not theirs.closing.startswith(tail.strip()):
        yield f"{tail!r} is learned behind an answer"
    if not turn.get("tool_calls") and theirs.whole and tokens != theirs.ends:
        yield f"{tail!r} is learned and not all of {theirs.closing!r}"
    # An earlier answer may end as no last one does; then its end is not learned.
    if not tokens and not set(theirs.tokens(behind)[:1]) - {*theirs.ends, *theirs.header}:
        yield f"no end is learned behind {said[-20:]!r}"


def _asked_otherwise(chat: Chat, tools: Any, text: str, last: tuple[int, int], theirs: Theirs) -> Iterator[str]:
    """Whether the last answer stands behind another ending of the prompt than a server would give."""
    prompt = theirs.render(chat[:-1], tools, prompt=True)
    question = answer_of(chat[-2])
    ending, before = prompt.rpartition(question)[2], text[: last[0]].rpartition(question)[2]
    whole = before + text[last[0] : last[1]]
    # A thought that a prompt opens may be a turn's own.
    opened = re.sub(r"\s+", "", ending.removesuffix(before))
    if not prompt or not (whole.startswith(ending) or re.sub(r"\s+", "", whole).startswith(opened)):
        yield f"it is asked behind {ending[-60:]!r}, and learned behind {before[-60:]!r}"
    if chat[-2] == chat[0] and tools is None and not text.startswith(prompt[: len(prompt) - len(ending)]):
        yield "the question is rendered otherwise than a server would"
