"""The ``retention`` section of the tenants file: off where it is not there."""

from pydantic import Field

from ft_assets.recipes.settings import Settings


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

    @property
    def on(self) -> bool:
        return self.keep_versions is not None or self.keep_days is not None
