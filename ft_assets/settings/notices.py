"""Who is told of what: the ``notify`` section of the tenants file, of the platform and of each tenant."""

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator, Field, Strict

from ft_assets.recipes.settings import Settings, unique
from ft_resources.mail import check_address
from ft_resources.notifier import SECRET_PREFIX
from ft_resources.webhook import check_url


class EventKind(StrEnum):
    """What can be told."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
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


class WebhookSettings(Settings):
    """A signed JSON POST."""

    url: Annotated[str, AfterValidator(check_url)] = Field(
        max_length=2000, description="https://…; plain http only to hosts that FT_NOTIFY_HOSTS names."
    )
    secret_env: str = Field(
        pattern=rf"^{SECRET_PREFIX}[A-Z0-9_]{{1,60}}$",
        description=f"Name of the environment variable with the key of its signatures; it starts with {SECRET_PREFIX}.",
    )


class EmailSettings(Settings):
    """A plain-text mail."""

    to: Annotated[tuple[Annotated[str, AfterValidator(check_address)], ...], Strict(False), AfterValidator(unique)] = (
        Field(min_length=1, max_length=20, description="Who gets it.")
    )


class Notify(Settings):
    """Where notices go, and of what."""

    webhook: WebhookSettings | None = Field(default=None, description="A machine to tell; null for none.")
    email: EmailSettings | None = Field(default=None, description="People to tell; null for none.")
    events: Annotated[tuple[EventKind, ...], Strict(False)] | None = Field(
        default=None, description="What to tell of; null for everything."
    )

    def wants(self, kind: EventKind) -> bool:
        """Whether it is told of events of this kind."""
        return self.events is None or kind in self.events
