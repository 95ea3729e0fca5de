"""The Modelfile from which Ollama makes a model: the file, the chat template in Ollama's language, stop strings.

Ollama writes prompts by a template in Go and does not run Jinja (https://docs.ollama.com/modelfile). Here one is
derived from what the Jinja template renders, for templates that write each message between the same two texts, and is
compared with it on conversations. Where it would differ, Ollama is left without one, and the file says so.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ft_assets.workers.templates.rendering import Messages, NotRendered
from ft_assets.workers.templates.template import ChatTemplate

_SYSTEM, _QUESTION, _ANSWER = "qzsystemzq", "qzquestionzq", "qzanswerzq"
_QUOTES = '"""'


@dataclass(frozen=True, kw_only=True, slots=True)
class Turns:
    """What a template writes around messages: ``opening`` before all of them, or ``system`` around the text of a system
    turn instead; ``user`` and ``assistant`` around theirs; and ``asks`` before a new answer."""

    opening: str
    system: tuple[str, str] | None
    user: tuple[str, str]
    assistant: tuple[str, str]
    asks: str

    def without(self, bos: str) -> "Turns":
        """The same for an engine that puts the token ``bos`` before every text itself."""
        system = self.system and (self.system[0].removeprefix(bos), self.system[1])
        return replace(self, opening=self.opening.removeprefix(bos), system=system)

    def render(self, messages: Messages) -> str:
        """A conversation up to the assistant's next turn, as Ollama renders it by ``go``."""
        systems = [str(message["content"]) for message in messages if message["role"] == "system"]
        text = self.opening
        if systems:
            before, after = self.system or ("", "")
            text = before + "\n\n".join(systems) + after
        around = {"user": self.user, "assistant": self.assistant}
        for message in messages:
            if message["role"] in around:
                before, after = around[message["role"]]
                text += f"{before}{message['content']}{after}"
        return text + self.asks

    def go(self) -> str:
        """The template in Go's language."""
        opening = self.opening
        if self.system:
            before, after = self.system
            opening = f"{{{{ if .System }}}}{before}{{{{ .System }}}}{after}{{{{ else }}}}{opening}{{{{ end }}}}"
        user, assistant = (f"{before}{{{{ .Content }}}}{after}" for before, after in (self.user, self.assistant))
        roles = f'{{{{ if eq .Role "user" }}}}{user}{{{{ else if eq .Role "assistant" }}}}{assistant}{{{{ end }}}}'
        return f"{opening}{{{{ range .Messages }}}}{roles}{{{{ end }}}}{self.asks}"


def turns_of(template: ChatTemplate) -> Turns | None:
    """What ``template`` writes around messages; None if it does more than that, or cannot be quoted."""
    try:
        found = _read(template)
        tried = [_talk("u"), _talk("uau"), _talk("uauau"), *([_talk("su"), _talk("suau")] if found.system else [])]
        same = all(found.render(messages) == _rendered(template, messages) for messages in tried)
    except (*NotRendered, ValueError):
        return None
    texts = (found.opening, found.asks, *found.user, *found.assistant, *(found.system or ()))
    return found if same and not any("{{" in text or _QUOTES in text for text in texts) else None


def modelfile(*, file: str, turns: Turns | None, stops: Iterable[str], context_length: int) -> str:
    """The text of the Modelfile for the GGUF ``file`` beside it."""
    lines = [f"FROM ./{file}"]
    if turns is not None:
        lines.append(f"TEMPLATE {_QUOTES}{turns.go()}{_QUOTES}")
    else:
        lines += [
            "# The chat template cannot be written in Ollama's words, and Ollama guesses one: serve this file with",
            "# llama-server --jinja, which runs the template that is in the file, or send whole prompts.",
        ]
    lines += [f'PARAMETER stop "{stop}"' for stop in sorted(stops) if '"' not in stop]
    return "\n".join([*lines, f"PARAMETER num_ctx {context_length}"]) + "\n"


def _read(template: ChatTemplate) -> Turns:
    """The texts around messages. Raises ValueError where a message is missing, or two of them cannot be told apart."""
    ended, asking = (_rendered(template, _talk("u"), ask=ask) for ask in (False, True))
    asks = _after(asking, ended)
    _, closed = _between(ended, _QUESTION)
    opened, asked, answered, _ = _between(_rendered(template, _talk("uau")), _QUESTION, _ANSWER, _QUESTION)
    *_, finished = _between(_rendered(template, _talk("ua"), ask=False), _QUESTION, _ANSWER)
    before = _after(answered, finished)
    found = Turns(
        opening=opened.removesuffix(before),
        system=None,
        user=(before, closed),
        assistant=(_after(asked, closed), finished),
        asks=asks,
    )
    try:
        first, second, _ = _between(_rendered(template, _talk("su")), _SYSTEM, _QUESTION)
    except (*NotRendered, ValueError):
        return found
    return replace(found, system=(first, second.removesuffix(before)))


def _after(text: str, start: str) -> str:
    """``text`` without its ``start``. Raises ValueError if it does not start so."""
    if not text.startswith(start):
        raise ValueError("the template writes a message in more than one way")
    return text.removeprefix(start)


def _between(text: str, *marks: str) -> list[str]:
    pieces = []
    for mark in marks:
        piece, found, text = text.partition(mark)
        if not found:
            raise ValueError(f"the template leaves out {mark}")
        pieces.append(piece)
    return [*pieces, text]


def _talk(roles: str) -> Messages:
    said = {"s": ("system", _SYSTEM), "u": ("user", _QUESTION), "a": ("assistant", _ANSWER)}
    return [{"role": said[each][0], "content": said[each][1]} for each in roles]


def _rendered(template: ChatTemplate, messages: Messages, *, ask: bool = True) -> str:
    return template.render(messages, where="Modelfile", add_generation_prompt=ask)
