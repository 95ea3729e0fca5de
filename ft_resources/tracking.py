"""MLflow as a mirror: curves, parameters and registered adapters, for people to look at. Never a source of truth.

Everything MLflow does happens in one background thread of the process (importing it takes seconds, and so does a fresh
database), so that no op waits for it. Where it fails, the platform says so once and goes on without it; ``ft rebuild``
makes good what it missed.
"""

import json
import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from ft_resources.artifacts import Artifact
from ft_resources.attempts import Attempt, Ending
from ft_resources.execution import Observer, Silent
from ft_resources.mlflow_server import MlflowServer, RunStatus, Standing, Version
from ft_resources.outcomes import Outcome

FLUSH_S = 15.0
# After a preemption the work goes on with another attempt, so its curve stays open.
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
    """Where a warning goes: Dagster's ``context.log``, or a logger."""

    def warning(self, message: str) -> None: ...


class Mirror:
    """Takes notes at once and hands them to MLflow in the background. Nothing here raises, and only ``flush`` waits.

    After MLflow has failed, this mirror tries nothing more: a curve with a hole could not be mended later, one that
    ends too early can.
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
        """Whether MLflow failed once, so that this mirror is of no more use."""
        return bool(self._problem)

    def run_started(self, address: str, *, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """The work at ``address`` begins or goes on; its MLflow run is found by the address, or created."""
        self._note(lambda: self._server.start(address, name, params, tags))

    def steps(self, address: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Points of the curves: each row has ``step``, ``at`` and numbers. What MLflow has already is left out."""
        self._note(lambda: self._server.log_steps(address, rows))

    def run_finished(self, address: str, status: RunStatus) -> None:
        """The work at ``address`` has ended."""
        self._note(lambda: self._server.finish(address, status))

    def tag(self, address: str, tags: Mapping[str, str]) -> None:
        """Tags of the run of the work at ``address``; nothing where MLflow has none."""
        self._note(lambda: self._server.tag(address, tags))

    def group(self, address: str, *, name: str, tags: Mapping[str, str], members: Sequence[str]) -> None:
        """A finished run for ``address`` below which MLflow shows the runs of the work at ``members``."""
        self._note(lambda: self._server.group(address, name, tags, members))

    def register_adapter(self, artifact: Artifact, *, tags: Mapping[str, str], card: str) -> None:
        """A version of the adapter's line (``facts["line"]``), once for each fingerprint; ``card`` describes it."""
        version = Version(
            line=str(artifact.facts["line"]),
            fingerprint=artifact.address.fingerprint,
            source=f"{artifact.store.url}/{artifact.address}/{artifact.manifest.writer}",
            run_address=artifact.manifest.inputs["checkpoint"].address,
            tags=tags,
            card=card,
        )
        self._note(lambda: self._server.register(version))

    def line_stands(self, line: str, read: Callable[[], Standing]) -> None:
        """Bring the aliases and stages of a line's versions up to what ``read`` says.

        It is read when MLflow is told, and once more afterwards: of two processes that tell of two promotions, the
        later one may be told first.
        """

        def tell() -> None:
            told = -1
            while (standing := read()).seq != told:
                self._server.stand(line, standing)
                told = standing.seq

        self._note(tell)

    def flush(self, timeout_s: float = FLUSH_S) -> str:
        """Wait until MLflow has everything, ``timeout_s`` at most. A sentence the first time something is wrong."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._pending == 0 or self.failed, timeout_s):
                self._problem = f"did not answer within {timeout_s:.0f} s"
            if not self._problem or self._told:
                return ""
            self._told = True
            return f"MLflow {self._problem}; the work goes on without it. What it misses, ft rebuild adds later."

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
                # Whatever MLflow or its database raises, the work must not suffer from it.
                with self._changed:
                    self._problem = f"failed ({_first_line(error)})"
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()


class MlflowObserver(Silent):
    """Mirrors the steps of the work it sees; work that reports no steps never touches MLflow."""

    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._last: Attempt | None = None
        self._started = False

    def attempt(self, attempt: Attempt, *, attached: bool) -> None:
        self._last = attempt

    def steps(self, attempt: Attempt, chunk: int, data: bytes) -> None:
        if not self._started:
            self._started = True
            start_from_spec(self._mirror, attempt)
        self._mirror.steps(str(attempt.address), [json.loads(line) for line in data.splitlines()])

    def ended(self) -> None:
        """Settle the run's status by how the last attempt ended; work that goes on, or may, stays running."""
        ending = self._last.ending() if self._last and self._started else None
        if self._last and ending and ending.outcome in _STATUS:
            self._mirror.run_finished(str(self._last.address), _STATUS[ending.outcome])


class Observers:
    """Several observers as one."""

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def attempt(self, attempt: Attempt, *, attached: bool) -> None:
        for observer in self._observers:
            observer.attempt(attempt, attached=attached)

    def progress(self, progress: dict[str, Any]) -> None:
        for observer in self._observers:
            observer.progress(progress)

    def steps(self, attempt: Attempt, chunk: int, data: bytes) -> None:
        for observer in self._observers:
            observer.steps(attempt, chunk, data)

    def retrying(self, ending: Ending, delay_s: float) -> None:
        for observer in self._observers:
            observer.retrying(ending, delay_s)


def start_from_spec(mirror: Mirror, attempt: Attempt) -> None:
    """Begin the MLflow run of an attempt's work, with the parameters of its spec."""
    spec = attempt.store.get_json(f"{attempt.path}/spec.json")
    tags = {"ft.asset": spec["asset"], "ft.label": spec["label"], "ft.actor": spec["actor"]}
    tags |= {f"ft.input.{name}": ref["address"] for name, ref in spec["inputs"].items()}
    tags |= spec["runtime"].get("tags", {})
    mirror.run_started(str(attempt.address), name=spec["label"], params=spec["params"], tags=tags)


def default_uri() -> str:
    """``MLFLOW_TRACKING_URI``, else a SQLite file beside Dagster's state; empty where ``FT_TRACKING`` is ``off``."""
    if os.environ.get("FT_TRACKING", "").lower() == "off":
        return ""
    folder = Path(os.environ.get("FT_STATE") or ".ft").resolve()
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{folder}/mlflow.db"


_mirrors: dict[str, Mirror] = {}


def shared_mirror(uri: str) -> Mirror:
    """The process's mirror of ``uri``; a new one where the last has failed."""
    mirror = _mirrors.get(uri)
    if mirror is None or mirror.failed:
        mirror = _mirrors[uri] = Mirror(uri)
    return mirror


@contextmanager
def mirrored(uri: str, log: Log, *also: Observer) -> Iterator[Observer]:
    """An observer that tells ``also`` and MLflow (where ``uri`` is not empty); at the end the run gets its status."""
    if not uri:
        yield Observers(*also)
        return
    mirror = shared_mirror(uri)
    observer = MlflowObserver(mirror)
    try:
        yield Observers(*also, observer)
    finally:
        observer.ended()
        if warning := mirror.flush():
            log.warning(warning)


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [""])[0][:300] or type(error).__name__
