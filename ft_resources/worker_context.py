"""A worker's interface: read inputs, report progress, react to a stop request, and leave a result.

A worker talks only to the store. Progress is one small object, overwritten every second, which doubles as the
heartbeat. Step metrics and log text are appended as numbered chunks, so a reader needs only a high-water mark.
"""

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import START, chunk_path
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.file_cache import FileCache
from ft_resources.outcomes import STOP_GRACE_S
from ft_resources.progress_words import describe_progress
from ft_resources.store import Store
from ft_resources.work import WorkSpec

BEAT_S = 1.0
_LOSS_LINES = 100
_LAST_WORDS_S = 10.0
"""A worker that has not ended by itself is ended this many seconds before it would be killed."""


class Preempted(BaseException):
    """The worker was asked to stop. A BaseException, so that a library's ``except Exception`` cannot swallow it."""


@dataclass(frozen=True, kw_only=True)
class WorkResult:
    """A finished piece of work: a local folder whose files become the artifact, and facts for others to read.

    Files below ``report/``, ``evidence/`` and ``log/`` explain the artifact and do not decide its content digest;
    everything that differs between two equal runs (times, rates) belongs there or into ``facts``.
    """

    folder: Path
    facts: dict[str, Any] = field(default_factory=dict)


class StopRequest:
    """Whether a stop was requested, and when. Lock-free, since a signal may interrupt the handling of another."""

    def __init__(self) -> None:
        self._asked_at: float | None = None

    def set(self) -> None:
        if self._asked_at is None:
            self._asked_at = time.monotonic()

    def is_set(self) -> bool:
        return self._asked_at is not None

    def since_s(self) -> float:
        """Seconds since the stop request, 0 without one."""
        return 0.0 if self._asked_at is None else time.monotonic() - self._asked_at


class WorkContext:
    """Handed to every work function (``ft_assets.worker.WORK``) together with its spec."""

    def __init__(self, spec: WorkSpec, store: Store, scratch: Path) -> None:
        self.spec, self.store, self.scratch = spec, store, scratch
        self.artifacts = Artifacts(store)
        self._lock, self._flushing = threading.Lock(), threading.Lock()
        self._progress: dict[str, Any] = {"phase": "starting", "done": 0, "total": 0}
        self._steps: list[dict[str, Any]] = []
        self._phases: dict[str, float] = {}
        self._start: dict[str, Any] | None = None
        self._start_recorded = False
        self._step_chunk = self._log_chunk = 0
        self._log_offset = 0
        self._stopping = StopRequest()
        self._graceful = self._settled = False
        self.grace_s = STOP_GRACE_S
        self._ended = threading.Event()
        self._end: Callable[[BaseException], None] = lambda _: None
        self._since = time.time()

    @property
    def params(self) -> dict[str, Any]:
        return self.spec.params

    @property
    def runtime(self) -> dict[str, Any]:
        return self.spec.runtime

    @property
    def output(self) -> Path:
        """An empty local folder to build the result in."""
        folder = self.scratch / "output"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def input(self, name: str) -> Artifact:
        """The input artifact called ``name`` in the spec."""
        return self.artifacts.get(Address.parse(self.spec.inputs[name].address))

    def inputs(self, prefix: str) -> dict[str, Artifact]:
        """Inputs whose names start with ``prefix``, by the rest of their names."""
        return {
            name.removeprefix(prefix): self.input(name) for name in sorted(self.spec.inputs) if name.startswith(prefix)
        }

    @cached_property
    def cache(self) -> FileCache:
        """Copies of the store's files on this machine."""
        return FileCache.of_machine(self.scratch)

    def folder(self, name: str, prefix: str = "") -> Path:
        """A folder with the verified files of the input called ``name``, or those below ``prefix``, from the cache.

        The files are links that stay while this process lives: never write to them. Raises as ``FileCache.folder``.
        """
        artifact = self.input(name)
        view = f"{name}-{prefix}-{artifact.address.fingerprint[:16]}".replace("/", "-")
        return self.cache.folder(
            artifact,
            self.scratch / "inputs" / view,
            prefix,
            report=lambda done, total: self.progress("fetching inputs", done, total),
        )

    def progress(self, phase: str, done: int = 0, total: int = 0, **extra: Any) -> None:
        """Report the state of the work; cheap, since only the heartbeat thread writes it to the store. Of losses, which
        come with each step, some hundred stand in the log as well."""
        with self._lock:
            self._progress = {"phase": phase, "done": done, "total": total, **extra}
            self._phases.setdefault(phase, time.time())
        told = done in (1, total) or done % max(1, total // _LOSS_LINES) == 0
        if "validation_loss" in extra or ("loss" in extra and told):
            print(describe_progress(self._progress), flush=True)

    def step(self, **metrics: Any) -> None:
        """Append one row of step metrics (``step`` first, then JSON numbers); its time is added as ``at``."""
        with self._lock:
            self._steps.append({**metrics, "at": time.time()})
            if self._start is None:
                # What the first step waited for; the phases after it are left out.
                self._start = {"since": self._since, "phases": dict(self._phases), "first_step": time.time()}

    @property
    def stop_requested(self) -> bool:
        """Whether the worker was asked to stop; work inside ``graceful()`` checks this and raises Preempted."""
        return self._stopping.is_set()

    @property
    def stopping_s(self) -> float:
        """Seconds since the stop request, 0 without one; the worker may be killed after ``grace_s``."""
        return self._stopping.since_s()

    @contextmanager
    def graceful(self) -> Iterator[None]:
        """While inside, a stop request only sets ``stop_requested``, so that the work can save before it ends."""
        self._graceful = True
        try:
            yield
        finally:
            self._graceful = False
        if self.stop_requested:
            raise Preempted

    @contextmanager
    def abrupt(self) -> Iterator[None]:
        """Inside ``graceful()``, a stop request temporarily ends the work at once again: there is nothing to save."""
        graceful, self._graceful = self._graceful, False
        try:
            if self.stop_requested:
                raise Preempted
            yield
        finally:
            self._graceful = graceful

    def settle(self) -> None:
        """The work's ending is decided: from here on a stop request interrupts nothing."""
        self._settled = True

    def install_signal_handler(self) -> None:
        """SIGTERM and SIGINT ask the work to stop: at once, or at its own next safe point inside ``graceful()``."""

        def handle(_signal: int, _frame: FrameType | None) -> None:
            again = self.stop_requested
            self._stopping.set()
            # Raised only once: the interrupted code may still have to clean up.
            if not (self._graceful or self._settled or again):
                raise Preempted

        signal.signal(signal.SIGTERM, handle)
        signal.signal(signal.SIGINT, handle)

    def end_overdue(self, end: Callable[[BaseException], None]) -> None:
        """Call ``end`` from a thread, with ``Preempted``, if the work has not ended shortly before the end of the grace
        period after a stop; and with the problem that is given where it takes longer than ``at_most`` allows.

        Python handles signals between bytecode instructions, so a long call into a library (such as the upload of a
        large file) delays them; only this thread would notice then.
        """
        heard, tell = os.pipe()
        os.set_blocking(tell, False)
        signal.set_wakeup_fd(tell, warn_on_full_buffer=False)

        def wait() -> None:
            while os.read(heard, 1)[0] not in (signal.SIGTERM, signal.SIGINT):
                pass
            asked_at = time.monotonic()
            while time.monotonic() - asked_at < self.grace_s - _LAST_WORDS_S:
                time.sleep(BEAT_S)
            if not self._settled:
                end(Preempted())

        self._end = end
        threading.Thread(target=wait, name="overdue", daemon=True).start()

    @contextmanager
    def at_most(self, seconds: float, problem: UserError) -> Iterator[None]:
        """End the worker with ``problem`` where what is done meanwhile takes longer, whatever it is doing then.

        A call into a library that never lets another thread of Python run is not interrupted.
        """
        timer = threading.Timer(seconds, self._end, [problem])
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def start_heartbeat(self, log: Path) -> None:
        """Write progress, step chunks and the new text of ``log`` to the store once a second, from a thread."""

        def beat() -> None:
            while not self._ended.wait(BEAT_S):
                self.flush(log)
                if not self.stop_requested and self._given_up() and not self._ended.is_set():
                    os.kill(os.getpid(), signal.SIGTERM)

        self.flush(log)
        threading.Thread(target=beat, name="heartbeat", daemon=True).start()

    def end_heartbeat(self, log: Path) -> None:
        """Stop the thread and write what is left."""
        self._ended.set()
        self.flush(log)

    def stand_down(self) -> None:
        """Raise Preempted if this attempt was cancelled or declared dead before its worker started."""
        if self._given_up():
            self._stopping.set()
            raise Preempted

    def _given_up(self) -> bool:
        """Whether the attempt was asked to stop, or has a recorded end, so that the next attempt may have started.

        Launchers also send a signal, but not from another machine, nor to a worker that is just starting.
        """
        path = self.spec.attempt_path
        try:
            return self.store.exists(f"{path}/stop.json") or self.store.exists(f"{path}/outcome.json")
        except StoreUnavailable:
            return False

    def flush(self, log: Path) -> None:
        """One heartbeat. After a temporary store failure the next heartbeat tries again; nothing is dropped."""
        # The final flush may run during one of the thread, and must not send the same chunks again.
        with self._flushing:
            self._flush(log)

    def _flush(self, log: Path) -> None:
        path = self.spec.attempt_path
        with self._lock:
            progress, steps = {**self._progress, "since": self._since, "at": time.time()}, list(self._steps)
        try:
            self.store.put_json(f"{path}/progress.json", progress)
            if steps:
                lines = "".join(json.dumps(step) + "\n" for step in steps)
                self.store.put(chunk_path(path, "steps", self._step_chunk + 1), lines.encode())
                self._step_chunk += 1
                with self._lock:
                    del self._steps[: len(steps)]
            if self._start and not self._start_recorded:
                self.store.put_json(f"{path}/{START}", self._start)
                self._start_recorded = True
            while text := _text_from(log, self._log_offset):
                self.store.put(chunk_path(path, "log", self._log_chunk + 1), text)
                self._log_chunk += 1
                self._log_offset += len(text)
        except (OSError, CorruptArtifact):
            return
        except Exception as error:
            # The heartbeat must survive any store failure; the message goes to the log, which is uploaded later.
            print(f"heartbeat: {error}", flush=True)


def _text_from(log: Path, offset: int) -> bytes:
    """New bytes of the log file, at most 1 MiB; empty without a log file (a worker run by hand prints)."""
    try:
        with log.open("rb") as file:
            file.seek(offset)
            return file.read(1 << 20)
    except FileNotFoundError:
        return b""
