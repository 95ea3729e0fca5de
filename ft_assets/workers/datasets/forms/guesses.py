"""Guesses from columns' names and values: which policy probably reads rows that the present one cannot."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.spelling import LabelSettings, TurnSettings
from ft_assets.workers.datasets.forms.guess import Guess, try_out
from ft_assets.workers.datasets.forms.reasons import NAME
from ft_assets.workers.datasets.forms.texts import is_blank
from ft_assets.workers.datasets.forms.wording import guess_labels, guess_turns, is_liked

MAX_SAMPLE = 50
# As long as the names of a table's columns may be.
_MAX_NAME = 100
_WORDS = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|[^\W\d_a-zA-Z]+")

_ASKS = (
    *("question", "query", "instruction", "prompt", "input", "user", "ask", "asked", "request", "problem", "human"),
    "q",
)
_ANSWERS = (
    *("answer", "response", "output", "completion", "reply", "target", "solution", "assistant", "summary"),
    "a",
)
_TEXTS = ("text", "content", "document", "body", "passage", "article", "story", "paragraph", "transcript", "chapter")
_GOOD = ("chosen", "preferred", "accepted", "better", "winner", "good", "positive", "best")
_BAD = ("rejected", "dispreferred", "refused", "worse", "loser", "bad", "negative", "worst")
_MORE = ("context", "input", "passage", "background")
_SYSTEM = ("system",)
_SYSTEM_OF_TURNS = (*_SYSTEM, "instruction", "persona")
LABELS = ("label", "thumb", "feedback", "vote", "liked", "reaction")
_LABELS = (
    *("id", "uuid", "url", "link", "source", "date", "time", "category", "kind", "type", "topic", "lang", "language"),
    *("label", "score", "rating", "weight", "split", "tag", "tags", "author", "name", "version", "model", "file"),
)


def names_an_answer(name: str) -> bool:
    """Whether a field of this name probably holds an answer."""
    return bool({_joined(name), *_words(name)} & {*_ANSWERS})


def guess_columns(rows: Sequence[dict[str, Any]], settings: FormSettings) -> Guess | None:
    """The most probable policy that reads ``rows``, whose fields fit no form; None if no policy reads them."""
    for form, fields, turns, labels in _candidates(_Columns(rows)):
        found = try_out(rows, form, fields, settings, turns=turns, labels=labels)
        if found is not None:
            return found
    return None


def named_columns(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The fields of ``rows`` that may be shown, in the order of the upload: a name in every row is a column's name, any
    other could be the row's text."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [name for name in names if NAME.fullmatch(name) or _is_header(name, rows)]


class _Columns:
    """The fields of ``rows`` by the kind of most of their values, in the order of the upload."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        shown = named_columns(rows)
        self._rows = rows
        self.strings = [name for name in shown if self._most(name, lambda value: isinstance(value, str))]
        self.texts = [name for name in shown if self._most(name, _is_text)]
        self.turns = [name for name in shown if self._most(name, _is_turns)]
        self.thumbs = [name for name in shown if self._most(name, partial(_is_thumb, name))]

    def _most(self, name: str, fits: Callable[[Any], bool]) -> bool:
        return 2 * sum(fits(row.get(name)) for row in self._rows) > len(self._rows)

    def find(self, words: Sequence[str], *, among: Sequence[str], without: Sequence[str] = ()) -> str:
        """The field of ``among`` that ``words`` name best, earlier words first; "" if none does."""
        ranked = [
            (place, words.index(word), name)
            for name in among
            if name not in without
            for place, word in enumerate([_joined(name), *_words(name)[::-1]])
            if word in words
        ]
        return min(ranked)[2] if ranked else ""

    def spelt(self, name: str) -> TurnSettings | None:
        """What the turns in the field ``name`` call their fields and roles, if not as forms do."""
        return guess_turns(row[name] for row in self._rows if _is_turns(row.get(name)))

    def labels(self, name: str) -> LabelSettings | None:
        """The words of the labels in the field ``name``, if not true and false."""
        return guess_labels((row.get(name) for row in self._rows), name)

    def dislikes(self, name: str) -> bool:
        """Whether some label in the field ``name`` says that people did not like the answer."""
        return any(is_liked(row.get(name), name) is False for row in self._rows)

    def length(self, name: str) -> float:
        """Characters of all its texts."""
        return sum(len(row[name]) for row in self._rows if isinstance(row.get(name), str))


def _is_header(name: str, rows: Sequence[dict[str, Any]]) -> bool:
    return len(rows) > 1 and len(name) <= _MAX_NAME and name.isprintable() and all(name in row for row in rows)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not is_blank(value)


def _is_thumb(name: str, value: Any) -> bool:
    return is_liked(value, name) is not None


def _is_turns(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(turn, dict) for turn in value)


def _words(name: str) -> list[str]:
    return [word.lower().removesuffix("s") if len(word) > 3 else word.lower() for word in _WORDS.findall(name)]


def _joined(name: str) -> str:
    return "".join(_words(name))


_Mapped = Mapping[str, str | tuple[str, ...]]
_Fields = tuple[str, _Mapped]
_Spelt = tuple[str, _Mapped, TurnSettings | None, LabelSettings | None]


def _candidates(columns: _Columns) -> Iterable[_Spelt]:
    """Row forms, their fields, and how rows spell turns and labels; the more probable first."""
    yield from ((form, fields, None, None) for form, fields in _pairs(columns))
    label = columns.find(LABELS, among=columns.thumbs)
    labels = columns.labels(label) if label else None
    judged = bool(label) and columns.dislikes(label)
    for conversation in columns.turns:
        spelt = columns.spelt(conversation)
        system = columns.find(_SYSTEM_OF_TURNS, among=columns.texts)
        fields = {"messages": conversation, **({"system": system} if system else {})}
        for turns in (None, spelt) if spelt else (None,):
            if judged:
                yield "messages/label", {**fields, "label": label}, turns, labels
            if system:
                yield "system/messages", fields, turns, None
            yield "messages", {"messages": conversation}, turns, None
    for form, mapped in _texts(columns):
        if judged and form == "prompt/completion":
            yield "unpaired_preference", {**mapped, "label": label}, None, labels
        yield form, mapped, None, None


def _pairs(columns: _Columns) -> Iterable[_Fields]:
    any_value = [*columns.texts, *columns.turns]
    good, bad = columns.find(_GOOD, among=any_value), columns.find(_BAD, among=any_value)
    if good and bad:
        asked = columns.find(_ASKS, among=any_value, without=(good, bad))
        yield "preference", {**({"prompt": asked} if asked else {}), "chosen": good, "rejected": bad}
        for conversation in columns.turns:
            yield "messages/pairs", {"messages": conversation, "chosen": good, "rejected": bad}


def _texts(columns: _Columns) -> Iterable[_Fields]:
    answer = columns.find(_ANSWERS, among=columns.texts)
    asked = columns.find(_ASKS, among=columns.texts, without=(answer,))
    if asked and answer:
        # An input is often blank.
        more = columns.find(_MORE, among=columns.strings, without=(asked, answer))
        if more:
            yield "alpaca", {"instruction": asked, "input": more, "output": answer}
        system = columns.find(_SYSTEM, among=columns.texts, without=(asked, answer))
        if system:
            yield "prompt/completion", {"prompt": asked, "completion": answer, "system": system}
        yield "prompt/completion", {"prompt": _whole(asked, answer, columns), "completion": answer}
    text = columns.find(_TEXTS, among=columns.texts)
    if text and not (asked or answer):
        yield "text", {"text": text}
    rest = _unlabelled(columns.texts)
    others = [name for name in rest if name not in (asked, answer)]
    if asked and not answer and others:
        yield "prompt/completion", {"prompt": asked, "completion": max(others, key=columns.length)}
    if answer and not asked and others:
        yield "prompt/completion", {"prompt": _whole(others[0], answer, columns), "completion": answer}
    if len(rest) == 2:
        yield "prompt/completion", {"prompt": _whole(rest[0], rest[1], columns), "completion": rest[1]}
    if rest:
        yield "text", {"text": max(rest, key=columns.length)}


def _unlabelled(columns: Sequence[str]) -> list[str]:
    """The ``columns`` whose names are not names of labels."""
    return [name for name in columns if not {_joined(name), *_words(name)} & {*_LABELS}]


def _whole(asked: str, answer: str, columns: _Columns) -> str | tuple[str, ...]:
    """The column that asks, with the longest other one before the answer if that is longer: a subject and its mail.
    What follows the answer may give it away. Some mails may be blank."""
    there = columns.strings
    before = [name for name in _unlabelled(there) if name != asked and there.index(name) < there.index(answer)]
    longest = max(before, key=columns.length, default="")
    if not longest or columns.length(longest) <= columns.length(asked):
        return asked
    return tuple(sorted((asked, longest), key=there.index))
