"""Worker processes that start in no time: forked from one that has imported the libraries and done nothing else.

They are real workers (``ft_assets.worker.main``), killed by real signals. A ``Blow`` makes one send itself a signal at
an exact place, as a phase of a tiny training is over before anybody outside has seen it.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

_POLL_S = 0.01


@dataclass(frozen=True, kw_only=True, slots=True)
class Blow:
    """``signal`` comes just before the ``call``-th call (from 1) of ``place``, a ``module:attribute.path``."""

    place: str
    call: int
    signal: int


class Fork:
    """One worker."""

    def __init__(self, forks: "Forks", pid: int, log: Path) -> None:
        self._forks, self.pid, self.log = forks, pid, log
        self._code: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        if self._code is None:
            self._code = self._forks.ask({"poll": self.pid})
        return self._code

    def wait(self, timeout_s: float) -> int:
        deadline = time.monotonic() + timeout_s
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                self.send(signal.SIGKILL)
                raise TimeoutError(self.log.read_text())
            time.sleep(_POLL_S)
        return code

    def send(self, number: int) -> None:
        """Send a signal, unless the worker has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)


class Forks:
    """A process that forks workers on demand; use it as a context."""

    def __enter__(self) -> "Forks":
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.workers.training.forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def ask(self, question: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(question), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())

    def start(self, spec: Path, scratch: Path, blow: Blow | None = None) -> Fork:
        """A worker for the spec in a file, with a log beside it."""
        log = spec.with_suffix(".log")
        told = {"spec": str(spec), "scratch": str(scratch), "log": str(log), "blow": asdict(blow) if blow else None}
        return Fork(self, self.ask(told), log)


def _serve() -> None:
    """Read requests from stdin, one per line, and answer on stdout."""
    from ft_assets.workers.libraries import UNUSED, absent, keep_offline

    keep_offline()
    with absent(*UNUSED):
        for module in ("training_loop", "trainer", "model", "stop_requests", "methods.sft"):
            import_module(f"ft_assets.workers.training.{module}")
        import_module("transformers.models.llama.modeling_llama")
        # Else each worker would compute this again, in a second.
        import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping("llama")
        import_module("ft_assets.workers.training.telemetry.report").loss_curve([], "")
        worker = import_module("ft_assets.worker")
        gc.freeze()
        for line in sys.stdin:
            wanted = json.loads(line)
            if "poll" in wanted:
                ended, status = os.waitpid(wanted["poll"], os.WNOHANG)
                answer = os.waitstatus_to_exitcode(status) if ended else None
            elif (answer := os.fork()) == 0:
                _work(worker, wanted)
            print(json.dumps(answer), flush=True)


def _work(worker: Any, wanted: dict[str, Any]) -> None:
    """Be a worker; never returns."""
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, number)
    os.environ["FT_SCRATCH"] = wanted["scratch"]
    sys.argv = ["worker", wanted["spec"]]
    if wanted["blow"]:
        _prepare(Blow(**wanted["blow"]))
    try:
        worker.main()
    finally:
        os._exit(1)


def _prepare(blow: Blow) -> None:
    """Send the signal in this process."""
    module, path = blow.place.split(":")
    *owners, name = path.split(".")
    owner: Any = import_module(module)
    for each in owners:
        owner = getattr(owner, each)
    real, calls = getattr(owner, name), 0

    def struck(*args: Any, **kwargs: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == blow.call:
            os.kill(os.getpid(), blow.signal)
        return real(*args, **kwargs)

    setattr(owner, name, struck)


if __name__ == "__main__":
    _serve()
