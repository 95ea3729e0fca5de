"""Conversations that a line's users let the platform keep: requests, and an adapter's answers.

``<tenant>/conversations/<line>/<day>/…jsonl``, see ``minute_logs``. Nothing is kept unless both the line's settings and
the request (``store: true``) say so.
"""

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, ClassVar

from pydantic import Field

from ft_assets.records.minute_logs import MinuteLog, lines_in, prune, read_days
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel, added_field

FOLDER = "conversations"
_MOST_A_MINUTE, _MOST_BYTES = 20_000, 32 << 20


class OtherAnswer(StrictModel):
    """Another adapter's answer to the same request."""

    model: str = Field(min_length=1, description="The adapter as servers know it.")
    answer: str


class Conversation(Record):
    """One answer and its request."""

    WHAT: ClassVar[str] = "the conversation"

    model: str = Field(min_length=1, description="The adapter as servers know it: line@digest, 16 digits of it.")
    request: str = Field(min_length=1, max_length=100, description="Id of the request, by which its outcomes name it.")
    messages: list[dict[str, Any]] = Field(min_length=1, description="The turns before the answer.")
    answer: str
    production: OtherAnswer | None = added_field(
        None, description="Of a copied request: production's answer, which its user got; null where it was not whole."
    )
    at: str = Field(description="When it was complete; UTC, ISO 8601 with milliseconds.")

    @property
    def line(self) -> str:
        return self.model.partition("@")[0]


class ConversationLog(MinuteLog):
    """A server's conversations, in ``folder``."""

    def __init__(self, store: Store, server: str, *, folder: str = FOLDER) -> None:
        super().__init__(store, folder, server, most=_MOST_A_MINUTE, most_bytes=_MOST_BYTES)

    def add(self, conversation: Conversation) -> bool:
        """Keep a conversation; it is written with the first ``flush`` after its minute. False where a minute has more
        than 32 MiB of one line: it is not kept."""
        return self.keep(conversation.line, conversation.at, conversation.data())


def read_conversations(
    store: Store, line: str, since: str, until: str, *, folder: str = FOLDER
) -> Iterator[Conversation]:
    """Conversations of a line from ``since`` and before ``until`` (ISO 8601), by time. Raises CorruptArtifact for an
    object that cannot be read."""
    for of_day in read_days(store, folder, line, since, until):
        found = [Conversation.parse(text, path) for path, text in of_day]
        for each in sorted(found, key=lambda one: (one.at, one.request)):
            if since <= each.at < until:
                yield each


def prune_conversations(store: Store, line: str, keep_days: int, now: datetime, *, folder: str = FOLDER) -> int:
    """Delete whole days that are older than ``keep_days``; returns the number of objects."""
    return prune(store, folder, line, (now - timedelta(days=keep_days)).isoformat())


def lines_with_conversations(store: Store, tenant: str, *, folder: str = FOLDER) -> list[str]:
    return lines_in(store, folder, tenant)
