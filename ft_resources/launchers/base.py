"""What every launcher promises."""

from enum import StrEnum
from typing import Protocol

from ft_resources.attempts import Attempt, Ending
from ft_resources.work import WorkSpec


class LaunchState(StrEnum):
    """What a launcher knows of an attempt. UNKNOWN: it runs where this launcher cannot look."""

    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


class Launcher(Protocol):
    """Starts workers and tells whether they live; it never judges success, which is the manifest's alone."""

    def launch(self, spec: WorkSpec, attempt: Attempt) -> None:
        """Start the worker and record its handle on the attempt.

        Raises UserError, and starts nothing, for work that this launcher has no place for.
        """
        ...

    def state(self, attempt: Attempt) -> LaunchState:
        """Whether the worker of ``attempt`` lives."""
        ...

    def exit_code(self, attempt: Attempt) -> int | None:
        """The exit code where it is known; None otherwise."""
        ...

    def ending(self, attempt: Attempt) -> Ending | None:
        """How a worker that is gone ended, where the launcher knows more of it than an exit code; None otherwise."""
        ...

    def stop(self, attempt: Attempt, grace_s: float) -> None:
        """Ask the worker to stop, and end it when ``grace_s`` seconds have passed. Returns when it is gone."""
        ...

    def clean_up(self, attempt: Attempt) -> None:
        """Bring what is left of a dead worker's log to the store and remove its files; a living one is left alone."""
        ...
