"""Twenty conversations whose every content is a word of its own, and what is wrong with how one of them was labelled.

What a template shows is judged by Transformers' own rendering, and what is learned by these words alone.
"""

import datetime as dt
import re
from collections.abc import Iterator, Sequence
from typing import Any

from transformers.utils.chat_template_utils import _compile_jinja_template

from ft_assets.workers.templates.probes import with_text_arguments
from ft_assets.workers.templates.thoughts import with_thoughts_apart

Chat = list[dict[str, Any]]
_THINKS, _THINKS_AGAIN = "<think>\nwombat\n</think>\n\n", "<think>\nkoala\n</think>\n\n"
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


class Theirs:
    """Transformers' rendering of a template; "" where the template raises."""

    def __init__(self, source: str, variables: dict[str, str], thoughts_field: str, *, text_arguments: bool) -> None:
        self._template, self._variables = _compile_jinja_template(source), variables
        self._field, self._text_arguments = thoughts_field, text_arguments

    def render(self, chat: Sequence[dict[str, Any]], tools: Any, *, prompt: bool = False) -> str:
        messages = [with_thoughts_apart(message, self._field) for message in chat]
        messages = [with_text_arguments(each) for each in messages] if self._text_arguments else messages
        try:
            text: str = self._template.render(
                messages=messages,
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
    if chat[-1]["content"].startswith(_THINKS) and "wombat" not in joined:
        yield "the thoughts of the last turn are not learned"
    if tools and ("kimono" in joined or "kimono" not in rest):
        yield "the tool's definition is learned or left out"
    if chat[-1]["role"] == "assistant" and learned:
        yield from _asked_otherwise(chat, tools, text, learned[-1], theirs)


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
