"""The user errors that runs of Dagster raise, as they were before they were told (``ft_assets/graph/told.py``)."""

from collections.abc import Iterator
from contextlib import contextmanager

from ft_resources.dagster_private import DagsterUserCodeProcessError


@contextmanager
def untold() -> Iterator[None]:
    """Raises the user error that a run in the block was ended by."""
    try:
        yield
    except DagsterUserCodeProcessError as error:
        raise (error.__cause__ or error) from None
