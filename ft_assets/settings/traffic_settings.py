"""What is kept of one line's traffic, in ``tenants.yaml``."""

from pydantic import Field

from ft_resources.settings import Settings


class TrafficSettings(Settings):
    """Whether conversations are kept, which then may become rows to learn from."""

    keep: bool = Field(
        default=False,
        description="Whether conversations are kept whose request says `store: true`; without both nothing is.",
    )
    keep_days: int = Field(default=90, ge=1, le=3650, description="After so many days a conversation is deleted.")
