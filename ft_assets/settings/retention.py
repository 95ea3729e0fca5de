"""The ``retention`` section of the tenants file; without it only leftovers of attempts are removed."""

from pydantic import Field

from ft_resources.settings import Settings


class Leftovers(Settings):
    """How long leftover files and unreferenced artifacts are kept; null: for ever."""

    attempt_days: int | None = Field(
        default=7,
        ge=1,
        description="Days to keep logs, steps and files of attempts without an artifact, saves of finished work, and "
        "folders of concurrent writers that did not win.",
    )
    saves_days: int | None = Field(
        default=None, ge=1, description="Days to keep saves of unfinished work that can still be resumed."
    )
    unreferenced_days: int | None = Field(
        default=None,
        ge=1,
        description="Days to keep unreferenced artifacts that can be recreated, such as those of old code, from the "
        "time they were first found unreferenced.",
    )

    @property
    def patience_days(self) -> int | None:
        """Days without a sign of life after which a worker counts as dead; None if no rule concerns attempts."""
        return min((days for days in (self.attempt_days, self.saves_days) if days is not None), default=None)


class Retention(Settings):
    """Which dataset versions are kept. A version stays if either rule keeps it or something needs it."""

    keep_versions: int | None = Field(
        default=None, ge=1, description="Number of newest versions to keep of each dataset; null: no limit by number."
    )
    keep_days: int | None = Field(
        default=None, ge=1, description="Keep versions added within this number of days; null: no limit by age."
    )
    delete: bool = Field(
        default=False,
        description="Also write a tombstone, so that the bytes of retired versions are erased after 30 days (ft "
        "collect).",
    )

    leftovers: Leftovers = Field(default=Leftovers(), description="Retention of leftovers of ended work.")

    @property
    def on(self) -> bool:
        return self.keep_versions is not None or self.keep_days is not None
