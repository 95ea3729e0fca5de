"""Abandoned attempts: open, but without a worker. They were claimed and never launched, ran on a lost machine, or their
Job was deleted while no run waited for it.

While an attempt is open its usage is not counted, and its submission's reservation takes quota (``quota.py``).
"""

from collections.abc import Collection, Iterator

from ft_assets.control.metering.usage import attempt_at
from ft_resources.attempts import OPEN_ATTEMPTS, Attempt
from ft_resources.errors import CorruptArtifact
from ft_resources.execution import Execution
from ft_resources.launchers.base import LaunchState
from ft_resources.store import Store

SILENT_S = 3600.0
"""Seconds of silence after which an attempt counts as dead: heartbeats and launches are recorded every few seconds."""


def close_abandoned(
    execution: Execution, going_on: Collection[tuple[str, int]], busy: Collection[str], now: float, *, most: int
) -> list[str]:
    """Record the end of attempts that have no worker, as far as the launcher knows; returns their paths.

    Args:
        going_on: address and number of attempts that have a Job on a cluster.
        busy: partition keys of runs in progress: each run looks after its own attempt.
        now: seconds since the epoch.
        most: maximum number to close; the next call continues.
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
    """Open attempts that have been silent for an hour."""
    for entry in sorted(store.entries(OPEN_ATTEMPTS), key=lambda entry: entry.path):
        # Listed just before the launch.
        if now - entry.modified.timestamp() < SILENT_S:
            continue
        try:
            attempt = attempt_at(store, entry.path)
            if (str(attempt.address), attempt.number) in going_on or attempt.ending() is not None:
                continue
        except CorruptArtifact:
            # The metering sensor reports it.
            continue
        marker = store.find_json(entry.path)
        if marker and marker.get("label") not in busy and now - attempt.progress().get("at", 0.0) >= SILENT_S:
            yield attempt
