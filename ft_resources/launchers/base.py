"""The interface of all launchers, and optional capabilities: a launcher has one if its attribute is not None."""

from enum import StrEnum
from typing import Any, Protocol

from ft_resources.attempts import Attempt, Ending
from ft_resources.jobs import Job
from ft_resources.outcomes import Refund
from ft_resources.store import Store
from ft_resources.waiting import Waiting
from ft_resources.work import WorkSpec


class LaunchState(StrEnum):
    """What a launcher knows about an attempt. UNKNOWN: it runs where this launcher cannot check."""

    RUNNING = "running"
    GONE = "gone"
    UNKNOWN = "unknown"


class Queue(Protocol):
    """A queue in which workers wait for a place, with priorities that change while they wait."""

    def age(self, store: Store, after: str = "") -> tuple[str, str, int]:
        """Raise waiting work, protect nearly finished work from preemption, and have elastic trainings take another
        number of GPUs, within the time of a sensor's tick.

        Args:
            store: store of the workers.
            after: what the last call returned; "" for the first.

        Returns:
            What was done, in words; where the next call continues; how many changed their place.

        Raises UserError if the queue does not answer, LauncherRefusal if reading it is not allowed.
        """
        ...


class Explains(Protocol):
    """Knows why a launched worker does not run."""

    def why_waiting(self, attempt: Attempt) -> Waiting:
        """Why the worker of ``attempt`` does not run yet. Raises UserError and LauncherRefusal as ``Queue.age``."""
        ...


class Jobs(Protocol):
    """Workers that outlive all our processes: they can be listed, and removed without waiting."""

    def jobs(self, store_url: str) -> list[Job]:
        """All Jobs of the store, for all tenants."""
        ...

    def discard(self, attempt: Attempt, refund: Refund) -> None:
        """Record the place of ``attempt``, and then remove its Job without waiting."""
        ...


class Pods(Protocol):
    """Workers are pods, and Dagster's configuration of pods reaches them."""

    def honoured(self, from_instance: dict[str, Any], from_work: dict[str, Any]) -> dict[str, Any]:
        """What workers get of Dagster's configuration; see ``kubernetes/dagster_pod.py``."""
        ...


class Launcher(Protocol):
    """Starts workers and reports whether they live; it never judges success, which only the manifest decides.

    ``queue``, ``explains``, ``remote`` and ``pods`` are None if the launcher lacks the capability.
    """

    @property
    def queue(self) -> Queue | None: ...

    @property
    def explains(self) -> Explains | None: ...

    @property
    def remote(self) -> Jobs | None: ...

    @property
    def pods(self) -> Pods | None: ...

    def gpus_now(self, spec: WorkSpec, attempt: Attempt) -> int:
        """The largest of ``spec.resources.gpu_sizes`` for which there is room, else the smallest.

        Raises UserError as ``launch`` does.
        """
        ...

    def launch(self, spec: WorkSpec, attempt: Attempt) -> None:
        """Start the worker and record its handle on the attempt.

        Raises UserError, and starts nothing, for work that this launcher has no place to run.
        """
        ...

    def state(self, attempt: Attempt) -> LaunchState:
        """Whether the worker of ``attempt`` lives."""
        ...

    def ending(self, attempt: Attempt) -> Ending | None:
        """How a dead worker ended, as far as the launcher knows; None if it does not."""
        ...

    def stop(self, attempt: Attempt, grace_s: float) -> None:
        """Ask the worker to stop, and end it when ``grace_s`` seconds have passed. Returns when it is gone.

        Raises UserError where the backend does not allow it.
        """
        ...

    def clean_up(self, attempt: Attempt) -> None:
        """Upload the rest of a dead worker's log to the store and remove its files; a living one is left alone."""
        ...
