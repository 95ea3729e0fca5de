"""What is kept of one line's traffic, in ``tenants.yaml``."""

from pydantic import Field

from ft_resources.settings import Settings


class TrafficSettings(Settings):
    """Whether conversations are kept, which then may become rows to learn from."""

    keep: bool = Field(
        default=False,
        description="Whether to keep conversations of requests with `store: true`; others are never kept.",
    )
    keep_days: int = Field(default=90, ge=1, le=3650, description="Days until a conversation is deleted.")
