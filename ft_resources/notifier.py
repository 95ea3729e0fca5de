"""Telling people and machines outside: one message to one target, sent once, or an error that says why not.

Who is told what, and what happens after a failure, is decided elsewhere (``ft_assets/notices``); queue alerts may use
the same door. Secrets are named by environment variable, and stand in no record, error or log.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError

SECRET_PREFIX = "FT_WEBHOOK_"
_LEAST_SECRET = 16


class NotSent(UserError):
    """A message did not reach its target, as far as is known."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Message:
    """What is told. ``id`` is the same for every try, so that who gets it twice can tell.

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
        """The payload as it is sent and signed."""
        return canonical_json(self.payload)


@dataclass(frozen=True, kw_only=True, slots=True)
class WebhookTarget:
    """An address that takes a JSON POST; ``secret_env`` names the variable that holds the key of its signatures."""

    url: str
    secret_env: str

    @property
    def name(self) -> str:
        return f"webhook {self.url}"


@dataclass(frozen=True, kw_only=True, slots=True)
class EmailTarget:
    """Mail addresses that get one mail together."""

    to: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"mail to {', '.join(self.to)}"


Target = WebhookTarget | EmailTarget
Send = Callable[[Target, Message], None]


@dataclass(frozen=True, kw_only=True)
class Notifier:
    """Sends messages. Everything that decides how comes from the environment, read at each message.

    Args:
        environment: variables by name.
        timeout_s: seconds that one message may take altogether, whatever the other side does.
    """

    environment: Callable[[str], str | None] = field(default=os.environ.get)
    timeout_s: float = 10.0

    def send(self, target: Target, message: Message) -> None:
        """Send ``message``. Raises NotSent where the target did not say that it has it."""
        if isinstance(target, WebhookTarget):
            from ft_resources.webhook import allowed_hosts, post

            secret = self._secret(target)
            hosts = allowed_hosts(self.environment("FT_NOTIFY_HOSTS") or "")
            post(target.url, message, secret=secret, hosts=hosts, timeout_s=self.timeout_s)
        else:
            from ft_resources.mail import send_mail, smtp_settings

            send_mail(smtp_settings(self.environment), target.to, message, timeout_s=self.timeout_s)

    def _secret(self, target: WebhookTarget) -> bytes:
        secret = self.environment(target.secret_env) or ""
        if len(secret) < _LEAST_SECRET:
            raise NotSent(
                f"{target.secret_env} is {'too short to be a key' if secret else 'not set'}",
                where=target.name,
                remedy=f"Set it to at least {_LEAST_SECRET} characters where the daemon runs.",
            )
        return secret.encode()
