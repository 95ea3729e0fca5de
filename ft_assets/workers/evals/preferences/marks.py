"""Marks that divide turns in chat templates: no text that a judge reads may hold one.

A server reads ``<|im_start|>system`` in a message as a new turn, and a model reads "### Human:" as one. So what
well-known templates write is taken out of every text, and what the base's own and the judge's own template write: their
control and added tokens, and the words that they put around messages.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jinja2

from ft_assets.workers.templates.template import ChatTemplate
from ft_resources.artifacts import Artifact
from ft_resources.errors import UserError

_LONGEST = 64
# Of well-known models' templates; a judge behind an endpoint has a template that nobody here knows.
_FAMILIES = (
    r"[<＜][|｜][^|｜<>\n]{1,64}[|｜]?[>＞]|[<＜][^|｜<>\n]{1,64}[|｜][>＞]"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_RESULTS|TOOL_CALLS|TOOL_CONTENT|ARGS|CALL_ID|THINK|BOS|EOS)\]"
    r"|\[BEGIN FINAL RESPONSE\]|\[/?gMASK\]|\[[|][^|\]\n]{1,32}[|]\]|<</?SYS>>|</?s>|<(?:bos|eos|pad|unk|sop|eop)>"
    r"|<(?:start|end)_of_\w{1,32}>|</?(?:think|thinking|tool_call|tool_response|tools|seed:\w{1,32})>"
    r"|<(?:unused|extra_id_|reserved_)\d{1,6}>|^#{2,3} ?(?:Human|User|Assistant|System|Instruction|Input|Response)\b:?"
)
_KNOWN = re.compile(_FAMILIES, re.IGNORECASE | re.MULTILINE)
# In what a template writes: tags, and lines that are a header by their shape.
_TAG = re.compile(r"</?[^\s<>'\"{}]{1,62}>|\[{1,2}/?[A-Z][A-Z _]{0,60}\]{1,2}")
_HEADER = re.compile(
    r"(?:#{1,6}|\*\*)? ?[^\W\d_][\w ]{0,40}:|#{2,6} ?[^\W\d_][\w ]{0,40}|[^\w\s\"'{},.].*[^\w\s\"'{},.]"
)
_BRACKETS = re.compile(r"[<>＜＞|｜\[\]]")
# Marks within marks, which come out when the inner ones are taken; deeper ones lose all brackets.
_ROUNDS = 8
# No template writes it, and no message holds it.
_CONTENT = "\ufdd0"


@dataclass(frozen=True)
class Marks:
    """The marks of well-known templates, and ``own`` ones. Their words stay in a text, what makes them marks goes."""

    own: frozenset[str] = frozenset()

    def taken_from(self, text: str) -> str:
        """``text`` without marks."""
        for _ in range(_ROUNDS):
            before, text = text, self._pattern.sub(_words, text)
            if text == before:
                return text
        return _BRACKETS.sub(" ", text)

    def __or__(self, other: "Marks") -> "Marks":
        return Marks(self.own | other.own)

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        rarer = sorted((each for each in self.own if not _KNOWN.fullmatch(each)), key=lambda mark: (-len(mark), mark))
        # A mark that is a word alone is one only as it is spelled.
        own = (rf"(?-i:\b{mark}\b)" if mark.isalnum() else re.escape(mark) for mark in rarer)
        return re.compile("|".join([*own, _FAMILIES]), re.IGNORECASE | re.MULTILINE)


WELL_KNOWN = Marks()


def marks_of(model: Artifact, *templates: str | None) -> Marks:
    """The marks of a base's or an adapter's own tokenizer and template, and of more ``templates`` (Jinja).

    A file that cannot be read has none: what needs it refuses it. Raises CorruptArtifact.
    """
    tokenizer, settings = (_object(model, name) for name in ("tokenizer.json", "tokenizer_config.json"))
    named = {name: _content(value) for name, value in settings.items() if name.endswith("_token")}
    decoder = settings.get("added_tokens_decoder")
    listed = [tokenizer.get("added_tokens"), [*decoder.values()] if isinstance(decoder, dict) else []]
    added = [each for many in listed if isinstance(many, list) for each in many]
    found = {*named.values(), *(_content(each) for each in added if _divides(each))}
    own = settings.get("chat_template")
    sources = [*templates, *(own if isinstance(own, list) else [own])]
    if "chat_template.jinja" in model.manifest.files:
        sources.append(model.read("chat_template.jinja").decode(errors="replace"))
    for source in sources:
        text = source.get("template") if isinstance(source, dict) else source
        if isinstance(text, str):
            found.update(_written(text, {name: value for name, value in named.items() if value}))
    return Marks(frozenset(mark for mark in found if mark and mark.strip()))


def _object(model: Artifact, name: str) -> dict[str, Any]:
    if name not in model.manifest.files:
        return {}
    try:
        found = json.loads(model.read(name))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _content(token: Any) -> str:
    """The text of a token of a tokenizer's settings, "" for what is none."""
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else ""


def _divides(token: Any) -> bool:
    """Whether an added token is a control token or looks like one; others are words, or runs of spaces."""
    return isinstance(token, dict) and (token.get("special") is True or bool(_TAG.search(_content(token))))


def _written(template: str, variables: dict[str, str]) -> Iterator[str]:
    """Marks among what a template writes, in all its branches and around messages of each role."""
    try:
        tokens = [*jinja2.Environment(extensions=["jinja2.ext.loopcontrols"]).lex(template)]
    except jinja2.TemplateSyntaxError:
        return
    for _, kind, text in tokens:
        if kind in ("data", "string"):
            lines = [line.strip() for line in text.strip("'\"").replace("\\n", "\n").splitlines()]
            yield from (tag for line in lines for tag in _TAG.findall(line))
            yield from (line for line in lines if len(line) <= _LONGEST and _HEADER.fullmatch(line) and _spells(line))
    for line in _around_messages(template, variables):
        yield from _TAG.findall(line)
        if len(line) <= _LONGEST and _spells(line):
            yield line


def _around_messages(template: str, variables: dict[str, str]) -> Iterator[str]:
    """The lines that the template puts around messages."""
    asks, says, leads = ({"role": role, "content": _CONTENT} for role in ("user", "assistant", "system"))
    try:
        found = ChatTemplate(template, name="chat_template", variables=variables, control=re.compile("(?!)"))
        for messages in ([leads, asks, says, asks], [asks, says, asks], [asks]):
            try:
                text = found.render(messages, where="a judge's material", add_generation_prompt=True)
            except UserError:
                continue
            for piece in text.split(_CONTENT):
                yield from (line.strip() for line in piece.splitlines())
    except UserError:
        return


def _spells(line: str) -> bool:
    """Whether it is words with something that makes them a mark."""
    return len(line) > 1 and any(map(str.isalpha, line)) and not all(each.isalnum() or each.isspace() for each in line)


def _words(found: re.Match[str]) -> str:
    words = re.sub(r"[^\w\s]+", " ", found[0])
    return " " if words == found[0] else words
