"""The ``retention`` section of the tenants file; retention is off without it."""

from pydantic import Field

from ft_resources.settings import Settings


class Leftovers(Settings):
    """How long leftover files and unreferenced artifacts are kept; null: for ever."""

    attempt_days: int | None = Field(
        default=None,
        ge=1,
        description="Days for logs, steps and files of attempts without an artifact, saves of finished work, and "
        "folders of writers that lost a race.",
    )
    saves_days: int | None = Field(
        default=None, ge=1, description="Days for saves of unfinished work that may still be resumed."
    )
    unreferenced_days: int | None = Field(
        default=None,
        ge=1,
        description="Days for unreferenced artifacts that can be made again, such as those of old code, counted from "
        "when they were first seen unreferenced.",
    )

    @property
    def patience_days(self) -> int | None:
        """Days without a sign of life after which a worker counts as dead; None if no rule concerns attempts."""
        return min((days for days in (self.attempt_days, self.saves_days) if days is not None), default=None)


class Retention(Settings):
    """Which dataset versions are kept. A version stays if either rule keeps it or something needs it."""

    keep_versions: int | None = Field(
        default=None, ge=1, description="Keep this many newest versions of each dataset; null for no such rule."
    )
    keep_days: int | None = Field(
        default=None, ge=1, description="Keep versions added within this many days; null for no such rule."
    )
    delete: bool = Field(
        default=False,
        description="Also write a tombstone, so that the bytes of retired versions are erased after 30 days (ft "
        "collect).",
    )

    leftovers: Leftovers | None = Field(
        default=None, description="How long leftovers of ended work are kept; null: all of them, for ever."
    )

    @property
    def on(self) -> bool:
        return self.keep_versions is not None or self.keep_days is not None
