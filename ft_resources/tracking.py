"""MLflow as a mirror: curves, parameters and registered adapters, for people to view. Never a source of truth.

All MLflow calls run in one background thread of the process, so that no op waits for them (importing MLflow takes
seconds, and so does a fresh database). If MLflow fails, the platform warns once and continues without it;
``ft rebuild`` adds what it missed.
"""

import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ft_resources.artifacts import Artifact
from ft_resources.attempts import Attempt, Ending, step_rows
from ft_resources.errors import first_line
from ft_resources.execution import Observer
from ft_resources.mlflow_server import MlflowServer, RunStatus, Standing
from ft_resources.outcomes import Outcome

FLUSH_S = 15.0
# After a preemption another attempt continues the work, so its MLflow run stays open.
_STATUS: dict[Outcome, RunStatus] = {
    Outcome.DONE: "FINISHED",
    Outcome.CANCELLED: "KILLED",
    Outcome.OUT_OF_MEMORY: "FAILED",
    Outcome.DIVERGED: "FAILED",
    Outcome.BAD_DATA: "FAILED",
    Outcome.USER_ERROR: "FAILED",
    Outcome.PLATFORM_ERROR: "FAILED",
    Outcome.TIMED_OUT: "FAILED",
}


class Log(Protocol):
    """Target of warnings: Dagster's ``context.log``, or a logger."""

    def warning(self, message: str) -> None: ...


class Mirror:
    """Queues notes and sends them to MLflow in the background. Nothing here raises, and only ``flush`` waits.

    After MLflow has failed once, this mirror sends nothing more: a curve with a gap could not be repaired later, one
    that ends too early can.
    """

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._server = MlflowServer(uri)
        self._notes: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._pending = 0
        self._thread: threading.Thread | None = None
        self._problem, self._told = "", False

    @property
    def failed(self) -> bool:
        """Whether MLflow failed, so that this mirror is no longer usable."""
        return bool(self._problem)

    def run_started(self, address: str, *, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """The work at ``address`` begins or continues; its MLflow run is found by the address, or created."""
        self._note(lambda: self._server.start(address, name, params, tags))

    def steps(self, address: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Add curve points: each row has ``step``, ``at`` and numbers. Points that MLflow already has are skipped."""
        self._note(lambda: self._server.log_steps(address, rows))

    def run_finished(self, address: str, status: RunStatus) -> None:
        """The work at ``address`` has ended."""
        self._note(lambda: self._server.finish(address, status))

    def tag(self, address: str, tags: Mapping[str, str]) -> None:
        """Set tags on the run of the work at ``address``; a no-op if MLflow has no such run."""
        self._note(lambda: self._server.tag(address, tags))

    def group(self, address: str, *, name: str, tags: Mapping[str, str], members: Sequence[str]) -> None:
        """Create a finished run for ``address``, below which MLflow shows the runs of the work at ``members``."""
        self._note(lambda: self._server.group(address, name, tags, members))

    def register_adapter(self, artifact: Artifact, *, tags: Mapping[str, str], card: str) -> None:
        """Register a version of the adapter's line (``facts["line"]``), once per fingerprint; ``card`` describes it."""
        self._note(lambda: self._server.register(artifact, tags, card))

    def line_stands(self, line: str, read: Callable[[], Standing]) -> None:
        """Update the aliases and stages of a line's versions to the state from ``read``.

        The state is read before the update, and again after it: two processes that mirror two promotions may reach
        MLflow in the wrong order.
        """

        def tell() -> None:
            told = -1
            while (standing := read()).seq != told:
                self._server.stand(line, standing)
                told = standing.seq

        self._note(tell)

    def flush(self, timeout_s: float = FLUSH_S) -> str:
        """Wait until MLflow has everything, at most ``timeout_s``. Returns a problem as a sentence, once."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._pending == 0 or self.failed, timeout_s):
                self._problem = f"did not answer within {timeout_s:.0f} s"
            if not self._problem or self._told:
                return ""
            self._told = True
            return f"MLflow {self._problem}; the work continues without it. ft rebuild adds the missing entries later."

    def _note(self, action: Callable[[], None]) -> None:
        with self._changed:
            if self.failed:
                return
            self._pending += 1
            self._notes.put(action)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="mlflow-mirror", daemon=True)
                self._thread.start()

    def _serve(self) -> None:
        while not self.failed:
            action = self._notes.get()
            try:
                action()
            except Exception as error:
                # No error of MLflow or its database may affect the work.
                with self._changed:
                    self._problem = f"failed ({first_line(error)})"
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()


class MlflowObserver(Observer):
    """Mirrors the steps of observed work, and tells ``then`` everything; work without steps never touches MLflow."""

    def __init__(self, mirror: Mirror, then: Observer) -> None:
        self._mirror, self._then = mirror, then
        self._last: Attempt | None = None
        self._started = False

    def attempt(self, attempt: Attempt, *, attached: bool) -> None:
        self._last = attempt
        self._then.attempt(attempt, attached=attached)

    def progress(self, progress: dict[str, Any]) -> None:
        self._then.progress(progress)

    def steps(self, attempt: Attempt, chunk: int, data: bytes) -> None:
        if not self._started:
            self._started = True
            start_from_spec(self._mirror, attempt)
        self._mirror.steps(str(attempt.address), [*step_rows(data)])
        self._then.steps(attempt, chunk, data)

    def waiting(self, why: str, delay_s: float) -> None:
        self._then.waiting(why, delay_s)

    def retrying(self, ending: Ending, delay_s: float, change: str) -> None:
        self._then.retrying(ending, delay_s, change)

    def ended(self) -> None:
        """Set the run's status from the last attempt's ending; work that continues, or may, stays running."""
        ending = self._last.ending() if self._last and self._started else None
        if self._last and ending and ending.outcome in _STATUS:
            self._mirror.run_finished(str(self._last.address), _STATUS[ending.outcome])


def start_from_spec(mirror: Mirror, attempt: Attempt) -> None:
    """Begin the MLflow run of an attempt's work, with the parameters of its spec."""
    spec = attempt.spec()
    assert spec is not None, "it is written before the attempt is followed"
    tags = {"ft.asset": spec.asset, "ft.label": spec.label, "ft.actor": spec.actor}
    tags |= {f"ft.input.{name}": ref.address for name, ref in spec.inputs.items()}
    tags |= spec.runtime.get("tags", {})
    mirror.run_started(str(attempt.address), name=spec.label, params=spec.params, tags=tags)


def default_uri() -> str:
    """``MLFLOW_TRACKING_URI``, else a SQLite file next to Dagster's state; empty if ``FT_TRACKING`` is ``off``."""
    if os.environ.get("FT_TRACKING", "").lower() == "off":
        return ""
    folder = Path(os.environ.get("FT_STATE") or ".ft").resolve()
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder}/mlflow.db"


_mirrors: dict[str, Mirror] = {}


def shared_mirror(uri: str) -> Mirror:
    """The process's mirror of ``uri``; a new one if the last has failed."""
    mirror = _mirrors.get(uri)
    if mirror is None or mirror.failed:
        mirror = _mirrors[uri] = Mirror(uri)
    return mirror


@contextmanager
def mirrored(uri: str, log: Log, then: Observer) -> Iterator[Observer]:
    """An observer that feeds ``then`` and MLflow (unless ``uri`` is empty); at the end the run gets its status."""
    if not uri:
        yield then
        return
    mirror = shared_mirror(uri)
    observer = MlflowObserver(mirror, then)
    try:
        yield observer
    finally:
        observer.ended()
        if warning := mirror.flush():
            log.warning(warning)
