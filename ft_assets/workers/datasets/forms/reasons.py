"""Why a row is not kept: an identifier for machines and a text for people."""

import re
from collections.abc import Callable
from enum import StrEnum

# Errors show names only in this form: anything else could be the row's text.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,39}")


class Reason(StrEnum):
    """Why a row is left out, in whichever step; the keys of the report's counts."""

    NOT_UTF8 = "not_utf8"
    NOT_JSON = "not_json"
    TOO_LONG = "too_long"
    UNKNOWN_SCHEMA = "unknown_schema"
    WRONG_TYPE = "wrong_type"
    EMPTY_TEXT = "empty_text"
    BAD_TEXT = "bad_text"
    ROLE_ORDER = "role_order"
    TOOL_CALLS = "tool_calls"
    SAME_ANSWERS = "same_answers"
    NO_GROUP = "no_group"
    BAD_WEIGHT = "bad_weight"
    MIXED_KINDS = "mixed_kinds"
    DUPLICATE = "duplicate"
    NEAR_DUPLICATE = "near_duplicate"
    CONTAMINATED = "contaminated"
    PARAPHRASED = "paraphrased"
    HELD_OUT = "held_out"
    SET_ASIDE = "set_aside"
    HOLDOUT_OVERLAP = "holdout_overlap"
    LOW_QUALITY = "low_quality"
    TOXIC = "toxic"
    BALANCED_OUT = "balanced_out"


REASONS: dict[Reason, str] = {
    Reason.NOT_UTF8: "bytes that are not UTF-8 text",
    Reason.NOT_JSON: "not a JSON object on one line",
    Reason.TOO_LONG: "a row longer than the limit",
    Reason.UNKNOWN_SCHEMA: "fields that match no known form",
    Reason.WRONG_TYPE: "a field that is missing or of the wrong type",
    Reason.EMPTY_TEXT: "an empty text",
    Reason.BAD_TEXT: "a text that cannot be written as Unicode, or stacks combining marks",
    Reason.ROLE_ORDER: "turns in an order that cannot be trained on",
    Reason.TOOL_CALLS: "tool calls and results that do not match",
    Reason.SAME_ANSWERS: "a chosen answer equal to the rejected one",
    Reason.NO_GROUP: "no value in the field of split.group_by",
    Reason.BAD_WEIGHT: "no valid weight in the field that the policy maps",
    Reason.MIXED_KINDS: "another kind of data (chat, preference, text) than earlier rows",
    Reason.DUPLICATE: "the same text as an earlier row",
    Reason.NEAR_DUPLICATE: "nearly the same text as an earlier row",
    Reason.CONTAMINATED: "text of a test item",
    Reason.PARAPHRASED: "a paraphrase of a test item",
    Reason.HELD_OUT: "rows of an earlier version's holdout, or near-duplicates of them",
    Reason.SET_ASIDE: "the prompt or group of a row in your own holdout",
    Reason.HOLDOUT_OVERLAP: "text that is also in the holdout",
    Reason.LOW_QUALITY: "matched by a quality heuristic of the policy",
    Reason.TOXIC: "flagged by the toxicity classifier",
    Reason.BALANCED_OUT: "more rows of a category than the balance allows",
}
"""The wording of each reason on the report page."""


class RowProblem(Exception):
    """One row cannot be used. ``field`` is a path such as ``messages[2].role``; ``problem`` never quotes the text.

    A sentence that takes long to find is given as a function: of millions of rows, a report shows a few hundred.
    """

    def __init__(self, reason: Reason, field: str, problem: str | Callable[[], str]) -> None:
        self.reason, self.field, self._problem = reason, field, problem
        super().__init__(reason, field, problem)

    @property
    def problem(self) -> str:
        """The problem in a sentence."""
        return self._problem if isinstance(self._problem, str) else self._problem()
