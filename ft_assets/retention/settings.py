"""The ``retention`` section of the tenants file: off where it is not there."""

from pydantic import Field

from ft_assets.recipes.settings import Settings


class Leftovers(Settings):
    """How long that is kept which leads to no artifact, or to which nothing leads; null: for ever."""

    attempt_days: int | None = Field(
        default=None,
        ge=1,
        description="Logs, steps and files of attempts that ended or died without an artifact, saves of finished work, "
        "and folders of writers that lost.",
    )
    saves_days: int | None = Field(
        default=None, ge=1, description="What unfinished work that may be asked for again saved to go on from."
    )
    unreferenced_days: int | None = Field(
        default=None,
        ge=1,
        description="Artifacts that can be made again and that nothing leads to any more, such as those of old code; "
        "counted from when that was first seen.",
    )

    @property
    def patience_days(self) -> int | None:
        """Without a sign of life for so long, a worker is taken for dead; None where no rule is about attempts."""
        return min((days for days in (self.attempt_days, self.saves_days) if days is not None), default=None)


class Retention(Settings):
    """Which dataset versions are kept. What either rule keeps stays, and so does whatever is needed."""

    keep_versions: int | None = Field(
        default=None, ge=1, description="The newest so many of each dataset are kept; null for no such rule."
    )
    keep_days: int | None = Field(
        default=None, ge=1, description="Versions that were added within so many days are kept; null for no such rule."
    )
    delete: bool = Field(
        default=False,
        description="Also put up a tombstone, so that the bytes of what is retired go after 30 days (ft collect).",
    )

    leftovers: Leftovers | None = Field(
        default=None, description="What work that is over leaves behind, and how long it is kept; null: all of it."
    )

    @property
    def on(self) -> bool:
        return self.keep_versions is not None or self.keep_days is not None
