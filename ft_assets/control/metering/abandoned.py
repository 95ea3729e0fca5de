"""Attempts that have no worker any more and that nobody closed: claimed and never launched, on a machine that is gone,
or of a Job that was deleted while no run waited for it.

While one is open its usage is not counted, and the promise to its submission takes quota (``quota.py``).
"""

from collections.abc import Collection, Iterator

from ft_assets.metering.usage import attempt_at
from ft_resources.attempts import OPEN_ATTEMPTS, Attempt
from ft_resources.errors import CorruptArtifact
from ft_resources.execution import Execution
from ft_resources.launchers.base import LaunchState
from ft_resources.store import Store

SILENT_S = 3600.0
"""A worker beats every second; who launches one says so in seconds."""


def close_abandoned(
    execution: Execution, going_on: Collection[tuple[str, int]], busy: Collection[str], now: float, *, most: int
) -> list[str]:
    """Record the end of attempts that have no worker, as far as the launcher knows; their paths.

    Args:
        going_on: address and number of those that a cluster has a Job for.
        busy: partition keys of runs that are under way: each looks after its own attempt.
        now: seconds since the epoch.
        most: how many; what is left is for the next look.
    """
    closed: list[str] = []
    for attempt in _silent(execution.store, going_on, busy, now):
        if len(closed) == most:
            break
        if execution.launcher.state(attempt) is not LaunchState.RUNNING:
            execution.bury(attempt)
            closed.append(attempt.path)
    return closed


def _silent(
    store: Store, going_on: Collection[tuple[str, int]], busy: Collection[str], now: float
) -> Iterator[Attempt]:
    """Open attempts of which nothing was heard for an hour."""
    for entry in sorted(store.entries(OPEN_ATTEMPTS), key=lambda entry: entry.path):
        # Listed right before the launch.
        if now - entry.modified.timestamp() < SILENT_S:
            continue
        try:
            attempt = attempt_at(store, entry.path)
            if (str(attempt.address), attempt.number) in going_on or attempt.ending() is not None:
                continue
        except CorruptArtifact:
            # The metering sensor tells of it.
            continue
        marker = store.find_json(entry.path)
        if marker and marker.get("label") not in busy and now - attempt.progress().get("at", 0.0) >= SILENT_S:
            yield attempt
