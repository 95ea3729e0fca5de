"""Shadow traffic: requests that production answered and that were copied to a rollout's candidate.

``<tenant>/shadows/<line>/<day>/…jsonl``, see ``minute_logs``. A record holds what is known of both answers, and no text
of them. Where a conversation may be kept, both answers are in ``<tenant>/shadow_conversations/<line>/``: apart from
what users saw, so that a thumb for production's answer says nothing of the candidate's.
"""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from ft_assets.records.minute_logs import MinuteLog, lines_in, prune, read_days
from ft_assets.records.outcomes import MOST_A_MINUTE
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel

FOLDER, CONVERSATIONS = "shadows", "shadow_conversations"
_MOST_BYTES = 16 << 20


class AnswerSeen(StrictModel):
    """What is known of one answer."""

    seconds: float = Field(ge=0.0, description="Until it was complete; a day for an answer that failed.")
    refused: bool | None = Field(description="Whether it is a refusal, by its opening; null for one that failed.")
    valid: bool | None = Field(description="Whether it has the line's format; null where that is not known.")
    characters: int = Field(ge=0, description="Length of its text.")
    tokens: int = Field(ge=0, description="Tokens that were written, the end token included.")

    @property
    def failed(self) -> bool:
        return self.refused is None


class ShadowPair(Record):
    """Two answers to one request: production's, which the user got, and the candidate's, which nobody was sent."""

    WHAT: ClassVar[str] = "the copied request"

    candidate: str = Field(min_length=1, description="The adapter as servers know it: line@digest, 16 digits of it.")
    incumbent: str = Field(min_length=1, description="The adapter in production, in the same form.")
    request: str = Field(min_length=1, max_length=100, description="Id of production's answer.")
    candidate_answer: AnswerSeen
    incumbent_answer: AnswerSeen
    at: str = Field(description="When the later of them was complete; UTC, ISO 8601 with milliseconds.")

    @property
    def line(self) -> str:
        return self.candidate.partition("@")[0]


class ShadowLog(MinuteLog):
    """A server's copied requests."""

    def __init__(self, store: Store, server: str) -> None:
        super().__init__(store, FOLDER, server, most=MOST_A_MINUTE, most_bytes=_MOST_BYTES)

    def add(self, pair: ShadowPair) -> None:
        """Keep a pair; it is written with the first ``flush`` after its minute."""
        self.keep(pair.line, pair.at, pair.data())


def read_shadows(store: Store, line: str, since: str, until: str) -> Iterator[ShadowPair]:
    """Copied requests of a line from ``since`` and before ``until`` (ISO 8601), by time; of several of one request and
    candidate the first. Raises CorruptArtifact for an object that cannot be read."""
    seen: set[tuple[str, str]] = set()
    for of_day in read_days(store, FOLDER, line, since, until):
        found = [ShadowPair.parse(text, path) for path, text in of_day]
        for pair in sorted(found, key=lambda each: (each.at, each.request)):
            key = (pair.candidate, pair.request)
            if since <= pair.at < until and key not in seen:
                seen.add(key)
                yield pair


def prune_shadows(store: Store, line: str, before: str) -> int:
    """Delete whole days before ``before`` (ISO 8601); returns the number of objects."""
    return prune(store, FOLDER, line, before)


def lines_with_shadows(store: Store, tenant: str) -> list[str]:
    return lines_in(store, FOLDER, tenant)
