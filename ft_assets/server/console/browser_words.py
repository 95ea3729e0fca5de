"""Messages for a browser: in place of a command line they name a place in the console."""

import re
from collections.abc import Iterator, Mapping

_TERMINAL = re.compile(
    r"`?(?:\bft (?P<command>[a-z][a-z-]*(?: [a-z][a-z-]*)?)|(?P<rows>dataset\.yaml|--policy)"
    r"|[\s(]--[a-z]|\btenants\.yaml:|\bFT_[A-Z]|\b(?:pip|uv|kubectl|chmod) [a-z0-9]|\bmake (?:serve|demo|ui)\b)"
)
_ASIDE = re.compile(r"\s*\([^()]*\)")
_LEFT_OVER = re.compile(r"(?:,? (?:or|and|with|then|see))+$")
_SENTENCE = re.compile(r"(?<=[.!?])\s+")
_ROWS = "Choose how the rows are read at the first step of a new job, or upload a corrected file."
_OPERATOR = "Ask the platform's operator."
_JOB, _LINE, _NEW = "Open the job under Jobs.", "Open the line under Lines.", "Start a new job."
# By the first word of a command, or the first two.
_PLACES: Mapping[str, str] = {
    "dataset add": "Upload the file under Files.",
    **dict.fromkeys(("dataset report", "dataset approve", "dataset list", "dataset diff"), "Open it under Datasets."),
    "adapter list": "They are listed under Adapters.",
    **dict.fromkeys(("line", "lines", "promote", "rollback", "rollout", "approve"), _LINE),
    **dict.fromkeys(("status", "logs", "cancel", "resume", "pause", "gate show"), _JOB),
    **dict.fromkeys(("run", "submit"), _NEW),
    "chat": "Try it on its page.",
    "key": "An administrator does this under Keys.",
    "usage": "See Usage.",
}


def in_browser(text: str) -> str:
    """``text`` of ours without advice for a command line: in its place stands where the same is done in the console, or
    who can do it."""
    if not _TERMINAL.search(text):
        return text
    found: list[str] = []
    for line in text.split("\n"):
        for sentence in _SENTENCE.split(line):
            found += [each for each in _sentences(sentence) if each not in found]
        if line.endswith(":") and _TERMINAL.search(line):
            # What follows is to be pasted.
            break
    return " ".join(found)


def _sentences(sentence: str) -> Iterator[str]:
    if _TERMINAL.search(sentence):
        sentence = _ASIDE.sub(lambda aside: "" if _TERMINAL.search(aside[0]) else aside[0], sentence)
    match = _TERMINAL.search(sentence)
    if match is None:
        if sentence.strip():
            yield sentence
        return
    before = max(sentence.rfind(mark, 0, match.start() + 1) for mark in (": ", "; "))
    if before > 0:
        yield f"{_LEFT_OVER.sub('', sentence[:before])}."
    yield _place(match)


def _place(match: re.Match[str]) -> str:
    if match["rows"]:
        return _ROWS
    command = match["command"] or ""
    return _PLACES.get(command) or _PLACES.get(command.partition(" ")[0]) or _OPERATOR
