"""Recipients and events of notices: the ``notify`` sections of the platform and of each tenant in the tenants file."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, Strict

from ft_resources.receivers import SECRET_PREFIX, check_address, check_url
from ft_resources.settings import Settings, unique


class EventKind(StrEnum):
    """Kinds of events that cause notices."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNGATED = "ungated"
    FAILED = "failed"
    CANCELLED = "cancelled"
    HELD = "held"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled_back"
    DEPRECATED = "deprecated"
    ARCHIVED = "archived"
    BASE_MOVED = "base_moved"
    BASE_RELEASED = "base_released"
    RUN_FAILED = "run_failed"
    QUEUE = "queue"
    ALERT = "alert"
    ROLLOUT = "rollout"
    DRIFT = "drift"


class WebhookSettings(Settings):
    """A signed JSON POST."""

    url: Annotated[str, AfterValidator(check_url)] = Field(
        max_length=2000, description="https://…; plain http only to hosts that FT_NOTIFY_HOSTS names."
    )
    secret_env: str = Field(
        pattern=rf"^{SECRET_PREFIX}[A-Z0-9_]{{1,60}}$",
        description=f"Environment variable with the signing key; its name starts with {SECRET_PREFIX}.",
    )


class EmailSettings(Settings):
    """A plain-text mail."""

    to: Annotated[tuple[Annotated[str, AfterValidator(check_address)], ...], Strict(False), AfterValidator(unique)] = (
        Field(min_length=1, max_length=20, description="Recipient address.")
    )


class Notify(Settings):
    """Targets of notices, and the events to send."""

    webhook: WebhookSettings | None = Field(default=None, description="Webhook that receives the events; null: none.")
    email: EmailSettings | None = Field(default=None, description="Mail addresses that receive the events; null: none.")
    events: Annotated[tuple[EventKind, ...], Strict(False)] | None = Field(
        default=None, description="Kinds of events to send; null: all."
    )

    def wants(self, kind: EventKind) -> bool:
        """Whether it receives events of this kind."""
        return self.events is None or kind in self.events
