"""Notifications to people and machines outside: a message and its target."""

import re
from dataclasses import dataclass
from typing import Any

from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError
from ft_resources.shown import COMMAND

_LONGEST = 1500
# Control characters that a terminal, mail or chat client would interpret; line breaks are kept.
_CONTROL = re.compile(f"(?:\t|{COMMAND.pattern})+")


class NotSent(UserError):
    """As far as is known, a message did not reach its target."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """A notification. ``id`` is the same for every try, so that receivers can recognise duplicates.

    Args:
        payload: JSON, for machines.
        subject: one line, for people.
        text: plain text, for people.
    """

    id: str
    payload: dict[str, Any]
    subject: str
    text: str

    @property
    def body(self) -> bytes:
        """The payload as sent and signed."""
        return canonical_json(self.payload)


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookTarget:
    """A URL that accepts a JSON POST; ``secret_env`` names the variable with its signing key."""

    url: str
    secret_env: str

    @property
    def name(self) -> str:
        return f"webhook {self.url}"


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailTarget:
    """Mail addresses that receive one common mail."""

    to: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"mail to {', '.join(self.to)}"


Target = WebhookTarget | EmailTarget


def clean(text: str) -> str:
    """``text`` without control characters, and no longer than a message should be."""
    settled = _CONTROL.sub(" ", text).strip()
    return settled if len(settled) <= _LONGEST else f"{settled[: _LONGEST - 1]}…"


def one_line(text: str) -> str:
    """``clean`` without line breaks."""
    return " ".join(clean(text).split())
