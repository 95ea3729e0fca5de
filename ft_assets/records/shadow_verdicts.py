"""Judges' verdicts on copied requests: which of the two answers is better.

``<tenant>/shadow_verdicts/<line>/<day>/…jsonl``, see ``minute_logs``. A verdict names the request and holds no text.
"""

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from ft_assets.records.minute_logs import MinuteLog, lines_in, prune, read_days
from ft_resources.records import Record
from ft_resources.store import Store

FOLDER = "shadow_verdicts"
Result = Literal["won", "tied", "lost", "none", "unreached"]
_MOST_A_MINUTE, _MOST_BYTES = 20_000, 16 << 20


class ShadowVerdict(Record):
    """A judge's verdict on one request: the candidate's answer against production's, or why it gave none."""

    WHAT: ClassVar[str] = "the verdict on a copied request"

    candidate: str = Field(min_length=1, description="The adapter as servers know it: line@digest, 16 digits of it.")
    incumbent: str = Field(min_length=1, description="The adapter in production, in the same form.")
    request: str = Field(min_length=1, max_length=100, description="Id of production's answer.")
    judge: str = Field(min_length=1, description="Which model was asked, and where.")
    win: float | None = Field(
        ge=0.0,
        le=1.0,
        description="1: the candidate's is better in both orders; 0: production's; 0.5: neither; null: no verdict.",
    )
    problem: str = Field(description="Why there is no verdict; empty with one.")
    again: bool = Field(description="Whether the judge was not reached; the pair may then be asked about again.")
    asked: bool = Field(description="Whether the judge said anything; equal answers are a tie without it.")
    cost: float = Field(ge=0.0, description="What it cost at most.")
    at: str = Field(description="When it was known; UTC, ISO 8601 with milliseconds.")

    @model_validator(mode="after")
    def _is_explained(self) -> "ShadowVerdict":
        if (self.win is None) != bool(self.problem) or (self.again and not self.problem):
            raise ValueError("either a verdict or the reason for none")
        return self

    @property
    def line(self) -> str:
        return self.candidate.partition("@")[0]

    @property
    def result(self) -> Result:
        """The verdict on the candidate."""
        if self.win is None:
            return "unreached" if self.again else "none"
        return "won" if self.win > 0.5 else "lost" if self.win < 0.5 else "tied"


class VerdictLog(MinuteLog):
    """Verdicts of one writer."""

    def __init__(self, store: Store, writer: str) -> None:
        super().__init__(store, FOLDER, writer, most=_MOST_A_MINUTE, most_bytes=_MOST_BYTES)

    def add(self, verdict: ShadowVerdict) -> None:
        """Keep a verdict; ``flush`` writes it."""
        self.keep(verdict.line, verdict.at, verdict.data())


def read_verdicts(store: Store, line: str, since: str, until: str) -> Iterator[ShadowVerdict]:
    """Verdicts of a line from ``since`` and before ``until`` (ISO 8601), by time. Raises CorruptArtifact for an object
    that cannot be read."""
    for of_day in read_days(store, FOLDER, line, since, until):
        found = [ShadowVerdict.parse(text, path) for path, text in of_day]
        for verdict in sorted(found, key=lambda each: (each.at, each.request)):
            if since <= verdict.at < until:
                yield verdict


def lines_with_verdicts(store: Store, tenant: str) -> list[str]:
    return lines_in(store, FOLDER, tenant)


def prune_verdicts(store: Store, line: str, before: str) -> int:
    """Delete whole days before ``before`` (ISO 8601); returns the number of objects."""
    return prune(store, FOLDER, line, before)
