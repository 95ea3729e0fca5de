"""Guesses from columns' names and values: which policy probably reads rows that the present one cannot."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from ft_assets.settings.dataset.forms import FormSettings
from ft_assets.settings.dataset.spelling import LabelSettings, TurnSettings
from ft_assets.workers.datasets.forms.field_names import ANSWERS, joined, names_one_of, words
from ft_assets.workers.datasets.forms.guess import Guess, try_out
from ft_assets.workers.datasets.forms.reasons import NAME
from ft_assets.workers.datasets.forms.texts import is_blank
from ft_assets.workers.datasets.forms.wording import guess_labels, guess_turns, is_liked

MAX_SAMPLE = 50
# As long as the names of a table's columns may be.
_MAX_NAME = 100

_ASKS = (
    *("question", "query", "instruction", "prompt", "input", "user", "ask", "asked", "request", "problem", "human"),
    "q",
)
_TEXTS = ("text", "content", "document", "body", "passage", "article", "story", "paragraph", "transcript", "chapter")
_GOOD = ("chosen", "preferred", "accepted", "better", "winner", "good", "positive", "best")
_BAD = ("rejected", "dispreferred", "refused", "worse", "loser", "bad", "negative", "worst")
_MORE = ("context", "input", "passage", "background")
_SYSTEM = ("system",)
_SYSTEM_OF_TURNS = (*_SYSTEM, "instruction", "persona")
_CLASSES = (
    *("label", "class", "category", "intent", "sentiment", "emotion", "topic", "team", "queue", "department"),
    *("priority", "severity", "genre", "tag", "type", "kind"),
)
# Values of a column of classes: rows for each of them, and characters.
_ROWS_EACH, _CLASS_CHARACTERS = 4, 60
LABELS = ("label", "thumb", "feedback", "vote", "liked", "reaction")
_LABELS = (
    *("id", "uuid", "url", "link", "source", "date", "time", "category", "kind", "type", "topic", "lang", "language"),
    *("label", "score", "rating", "weight", "split", "tag", "tags", "author", "name", "version", "model", "file"),
)


def guess_columns(rows: Sequence[dict[str, Any]], settings: FormSettings) -> Guess | None:
    """The most probable policy that reads ``rows``, whose fields fit no form; None if no policy reads them."""
    for form, fields, turns, labels in _candidates(_Columns(rows)):
        found = try_out(rows, form, fields, settings, turns=turns, labels=labels)
        if found is not None:
            return found
    return None


def guess_classes(rows: Sequence[dict[str, Any]], settings: FormSettings) -> Guess | None:
    """The policy by which ``rows`` answer a text with one of a few labels; None if they have none."""
    found = (try_out(rows, form, fields, settings) for form, fields in _classes(_Columns(rows)))
    return next((each for each in found if each is not None), None)


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
        self.shown = shown
        self.classes = [name for name in shown if self._has_classes(name)]
        self.thumbs = [name for name in shown if self._most(name, partial(_is_thumb, name))]

    def _most(self, name: str, fits: Callable[[Any], bool]) -> bool:
        return 2 * sum(fits(row.get(name)) for row in self._rows) > len(self._rows)

    def _has_classes(self, name: str) -> bool:
        """Whether the values in the field ``name`` are a few that come again and again: short texts, or numbers under
        the name of a label."""
        values = [row[name] for row in self._rows if row.get(name) is not None]
        whole = names_one_of(name, _CLASSES) and all(type(value) is int for value in values)
        if not whole and not all(_is_text(value) and len(value) <= _CLASS_CHARACTERS for value in values):
            return False
        return 1 < len({*values}) <= max(2, len(values) // _ROWS_EACH)

    def find(self, known: Sequence[str], *, among: Sequence[str], without: Sequence[str] = ()) -> str:
        """The field of ``among`` that ``known`` words name best, earlier words first; "" if none does."""
        ranked = [
            (place, known.index(word), name)
            for name in among
            if name not in without
            for place, word in enumerate([joined(name), *words(name)[::-1]])
            if word in known
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

    def varies(self, name: str) -> bool:
        """Whether the field ``name`` says different things, as answers do."""
        return any(row.get(name) != self._rows[0].get(name) for row in self._rows)

    def has_words(self, name: str) -> bool:
        """Whether most texts in the field ``name``, which others may leave blank, are more than figures and signs."""
        texts = [row[name] for row in self._rows if _is_text(row.get(name))]
        return 2 * sum(any(map(str.isalpha, text)) for text in texts) > len(texts)

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
    answer = columns.find(ANSWERS, among=columns.texts)
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
    rest = _unlabelled(columns.texts)
    others = [name for name in rest if name not in (asked, answer, *columns.classes)]
    if not (answer or (asked and others)):
        yield from _classes(columns)
    text = columns.find(_TEXTS, among=columns.texts)
    if text and not (asked or answer):
        yield "text", {"text": text}
    others = [name for name in rest if name not in (asked, answer)]
    if asked and not answer and others:
        yield "prompt/completion", {"prompt": asked, "completion": max(others, key=columns.length)}
    if answer and not asked and others:
        yield "prompt/completion", {"prompt": _whole(others[0], answer, columns), "completion": answer}
    # A file's own numbers of rows are texts in a CSV.
    two = rest if len(rest) == 2 else [name for name in rest if columns.has_words(name)]
    # What answers every question alike is no answer.
    if len(two) == 2 and (columns.varies(two[1]) or not columns.varies(two[0])):
        yield "prompt/completion", {"prompt": _whole(two[0], two[1], columns), "completion": two[1]}
    if rest:
        yield "text", {"text": max(rest, key=columns.length)}


def _classes(columns: _Columns) -> Iterable[_Fields]:
    """A text as the question, and one of a few labels as its answer."""
    unnamed = _unlabelled(columns.classes)
    label = columns.find(_CLASSES, among=columns.classes) or (unnamed[0] if len(unnamed) == 1 else "")
    texts = [name for name in _unlabelled(columns.texts) if name not in columns.classes]
    if label and texts:
        there = columns.shown
        first = texts[0] if there.index(texts[0]) < there.index(label) else max(texts, key=columns.length)
        yield "prompt/completion", {"prompt": _whole(first, label, columns), "completion": label}


def _unlabelled(columns: Sequence[str]) -> list[str]:
    """The ``columns`` whose names are not names of labels."""
    return [name for name in columns if not names_one_of(name, _LABELS)]


def _whole(asked: str, answer: str, columns: _Columns) -> str | tuple[str, ...]:
    """The column that asks, with the longest other one before the answer if that is longer: a subject and its mail.
    What follows the answer may give it away. Some mails may be blank."""
    there = columns.shown
    before = [
        name
        for name in _unlabelled(columns.strings)
        if name != asked and there.index(name) < there.index(answer) and columns.has_words(name)
    ]
    longest = max(before, key=columns.length, default="")
    if not longest or columns.length(longest) <= columns.length(asked):
        return asked
    return tuple(sorted((asked, longest), key=there.index))
