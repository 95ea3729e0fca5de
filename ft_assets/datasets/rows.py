"""The words the steps of curation share: a row as read, an example as kept, and why a row is not kept."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

Message = dict[str, str]
"""``{"role": "system" | "user" | "assistant", "content": text}``."""


class Reason(StrEnum):
    """Why a row is left out; the keys of ``dropped`` in the report and in the artifact's facts."""

    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    TOO_LONG = "too_long"
    UNKNOWN_SCHEMA = "unknown_schema"
    WRONG_TYPE = "wrong_type"
    EMPTY_TEXT = "empty_text"
    BAD_TEXT = "bad_text"
    ROLE_ORDER = "role_order"
    NO_GROUP = "no_group"
    DUPLICATE = "duplicate"


REASONS: dict[Reason, str] = {
    Reason.NOT_UTF8: "bytes that are not UTF-8 text",
    Reason.NOT_JSON: "not one JSON object on one line",
    Reason.TOO_LONG: "longer than one row may be",
    Reason.UNKNOWN_SCHEMA: "fields of no known schema",
    Reason.WRONG_TYPE: "a field that is missing or of the wrong type",
    Reason.EMPTY_TEXT: "a text with nothing in it",
    Reason.BAD_TEXT: "a text that cannot be written as Unicode",
    Reason.ROLE_ORDER: "turns in an order that cannot be learned from",
    Reason.NO_GROUP: "no value to keep its group together by",
    Reason.DUPLICATE: "the same conversation as an earlier row",
}
"""Each reason as the report page words it."""


class RowProblem(Exception):
    """One row cannot be used. ``field`` is a path such as ``messages[2].role``; ``problem`` never quotes the text."""

    def __init__(self, reason: Reason, field: str, problem: str) -> None:
        self.reason, self.field, self.problem = reason, field, problem
        super().__init__(reason, field, problem)


@dataclass(frozen=True, kw_only=True, slots=True)
class BadRow:
    """A row that is not kept; ``row`` is its 1-based number (for JSONL: its line)."""

    row: int
    field: str
    reason: Reason
    problem: str

    @property
    def where(self) -> str:
        return f"row {self.row}, {self.field}" if self.field else f"row {self.row}"


@dataclass(frozen=True, kw_only=True, slots=True)
class RawRow:
    """A row as read: one JSON object."""

    row: int
    value: dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A conversation that a model can learn from: an optional system turn, then user and assistant in turns.

    ``group`` and ``kind`` are "" where the row has none; ``schema`` names the form it was uploaded in, ``unused``
    the row's fields that curation does not look at.
    """

    row: int
    messages: tuple[Message, ...]
    group: str
    kind: str
    schema: str
    unused: tuple[str, ...]

    @property
    def characters(self) -> int:
        """Length of all turns together, in Unicode code points."""
        return sum(len(message["content"]) for message in self.messages)
