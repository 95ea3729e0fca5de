"""What every source of rows can do."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from ft_resources.errors import StoreUnavailable, UserError


@dataclass(frozen=True, kw_only=True, slots=True)
class Fetched:
    """Files with the rows, and what ``Place.look`` said when they were read."""

    seen: str
    files: tuple[Path, ...]


class Place(Protocol):
    """A source that is open."""

    def look(self) -> str:
        """What is there now: a text that changes if the rows may have changed. Reads no row. Raises UserError."""
        ...

    def fetch(self, folder: Path, *, most_rows: int | None) -> Fetched:
        """The rows as files in ``folder``; a database gives at most one row more than ``most_rows``. Raises UserError,
        and SourceUnavailable for a failure that may pass."""
        ...


class SourceUnavailable(StoreUnavailable):
    """The source does not answer, or changed while it was read; trying again may help."""


def secret(name: str) -> str:
    """The value of the environment variable ``name``. Raises UserError if it is not set."""
    value = os.environ.get(name, "")
    if not value:
        raise UserError(
            f"the variable {name} is not set",
            where="a connection in tenants.yaml",
            remedy="Set it where Dagster's daemon, code location and runs get their environment from.",
        )
    return value
