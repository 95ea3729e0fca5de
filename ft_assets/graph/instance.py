"""Opens Dagster's instance, one process at a time: the first one makes its databases."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import dagster as dg

from ft_assets.settings.environment import prepare_environment


def open_instance() -> dg.DagsterInstance:
    """The instance of ``DAGSTER_HOME``."""
    prepare_environment()
    # Two processes that make the same SQLite file both write their revision into it, and from then on no process can
    # open it: Dagster guards only one of the three.
    with _alone(Path(os.environ["DAGSTER_HOME"])):
        return dg.DagsterInstance.get()


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Waits for other processes that are in here for the same folder, which may be read-only."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        # A network file system may refuse to lock a folder, and is no place for SQLite.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)
