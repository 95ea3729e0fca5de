"""Workers and ranks that start in no time: forks of a process that has imported the libraries and done nothing else.

Workers are real ones (``ft_assets.worker.main``), ended by real signals. A ``Blow`` makes one send itself a signal at
an exact place, as a phase of a tiny training is over before anybody outside has seen it. Ranks stand for torchrun's,
and like those they all end when one fails, or when whoever started them does.

    python -m tests.workers.training.forks SOCKET SESSION
        the process that forks, in the background, until the process SESSION ends
    python tests/workers/training/forks.py SOCKET PROCESSES NODES FOLDER [MODULE:FUNCTION]
        in torchrun's place on all nodes: ends as torchrun does
"""

import contextlib
import gc
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ft_assets.settings.layout import Layout

_POLL_S = 0.02
# Importing the libraries takes ten seconds of a free core.
_PATIENCE_S = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Blow:
    """``signal`` comes just before the ``call``-th call (from 1) of ``place``, a ``module:attribute.path``."""

    place: str
    call: int
    signal: int


class Fork:
    """One worker. It ends with this process."""

    def __init__(self, line: socket.socket, log: Path) -> None:
        self._line, self.log = line, log
        self._said = line.makefile()
        self._pid = int(self._said.readline())

    def wait(self, timeout_s: float = _PATIENCE_S) -> int:
        """The exit code, negative for a signal."""
        self._line.settimeout(timeout_s)
        return int(self._said.readline())

    def send(self, number: int) -> None:
        """Send a signal, unless the worker has ended."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)


class Forks:
    """A process that forks on demand at the socket ``place``."""

    def __init__(self, folder: Path) -> None:
        self.place = folder / "forks"

    def begin(self, session: int) -> None:
        """Start it, until the process ``session`` ends."""
        import subprocess

        command = [sys.executable, "-m", "tests.workers.training.forks", str(self.place), str(session)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run(command, env=environment, start_new_session=True, check=True)

    def start(self, spec: Path, scratch: Path, blow: Blow | None = None) -> Fork:
        """A worker for the spec in a file, with a log beside it."""
        log = spec.with_suffix(".log")
        paths = {"place": str(self.place), "spec": str(spec), "scratch": str(scratch), "log": str(log)}
        return Fork(_asked(str(self.place), {**paths, "blow": asdict(blow) if blow else None}), log)

    def ranks(self, *prepare: str) -> Callable[[str, "Layout", Path], list[str]]:
        """A starter of ranks in torchrun's place; ``prepare`` is called in each of them before it works."""
        return _starting_ranks(str(self.place), *prepare)


def _starting_ranks(place: str, *prepare: str) -> Callable[[str, "Layout", Path], list[str]]:
    def command(device: str, layout: "Layout", folder: Path) -> list[str]:
        return [sys.executable, __file__, place, str(layout.processes), str(layout.nodes), str(folder), *prepare]

    return command


def node_folder(folder: Path, node: int) -> Path:
    """Where the ranks of ``node`` work if those of the first do in ``folder``."""
    return folder if node == 0 else folder.with_name(f"{folder.name}-of-node-{node}")


def run_ranks(place: str, processes: int, nodes: int, folder: str, prepare: str = "") -> int:
    """Run ``processes`` ranks on each of ``nodes`` in ``folder`` to their end; the exit code that torchrun would have.

    ``prepare`` names a function that is called in each rank before it works.
    """
    told = {"processes": processes, "nodes": nodes, "folder": folder, "prepare": prepare}
    return int(_asked(place, told).recv(16) or b"1")


def _asked(place: str, told: dict[str, Any]) -> socket.socket:
    """Where the process that forks will answer."""
    deadline, line = time.monotonic() + _PATIENCE_S, socket.socket(socket.AF_UNIX)
    while line.connect_ex(place):
        if time.monotonic() > deadline:
            sys.exit(f"no process forks at {place}")
        time.sleep(_POLL_S)
    line.sendall(json.dumps(told).encode() + b"\n")
    return line


def _serve(place: str, session: int) -> None:
    from ft_assets.workers.libraries import keep_offline

    if os.fork():
        return
    ends = os.pidfd_open(session)
    keep_offline()
    os.environ["DS_ACCELERATOR"] = "cpu"
    _import_libraries()
    gc.freeze()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen()
        signal.signal(signal.SIGCHLD, _reap)
        while ends not in select.select([door, ends], [], [])[0]:
            line, _ = door.accept()
            if not os.fork():
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                door.close()
                _look_after(line)
            line.close()


def _import_libraries() -> None:
    """All that workers and ranks would import or compute first, but for 8-bit floats."""
    from ft_assets.workers.libraries import absent

    with absent("torchao"):
        for module in ("bitsandbytes", "deepspeed", "deepspeed.runtime.zero.muon.muon_optimizer"):
            import_module(module)
        here = "ft_assets.workers.training"
        for module in ("training_loop", "trainer", "model", "stop_requests", "train", "rank", "methods.sft"):
            import_module(f"{here}.{module}")
        for module in ("hangs", "preflight", "sharding", "virtual", "zero"):
            import_module(f"{here}.distributed.{module}")
        import_module("ft_assets.worker")
        import_module("transformers.models.llama.modeling_llama")
        import_module("transformers.conversion_mapping").get_checkpoint_conversion_mapping("llama")
        # Done at the end of each training, and irrelevant to these tests.
        train: Any = import_module(f"{here}.train")
        train.write_pictures = lambda *_: None


def _reap(*_: object) -> None:
    """Take note of children that ended."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _look_after(line: socket.socket) -> None:
    """Fork what the client asks for, tell it how that ended, and end it with its client; never returns."""
    try:
        wanted = json.loads(line.makefile().readline())
        code = _look_after_worker(line, wanted) if "spec" in wanted else _look_after_ranks(line, wanted)
        with contextlib.suppress(OSError):
            line.sendall(str(code).encode())
    finally:
        os._exit(0)


def _gone(line: socket.socket) -> bool:
    """Whether the client has ended."""
    try:
        return not line.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False


def _look_after_worker(line: socket.socket, wanted: dict[str, Any]) -> int:
    worker = os.fork()
    if not worker:
        line.close()
        _work(wanted)
    line.sendall(f"{worker}\n".encode())
    while True:
        ended, status = os.waitpid(worker, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if _gone(line):
            os.kill(worker, signal.SIGKILL)
        time.sleep(_POLL_S)


def _work(wanted: dict[str, Any]) -> None:
    """Be a worker, whose ranks are forks too; never returns."""
    log = os.open(wanted["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, number)
    os.environ["FT_SCRATCH"] = wanted["scratch"]
    sys.argv = ["worker", wanted["spec"]]
    try:
        if wanted["blow"]:
            _prepare(Blow(**wanted["blow"]))
        launch: Any = import_module("ft_assets.workers.training.distributed.launch")
        launch._command = _starting_ranks(wanted["place"])
        import_module("ft_assets.worker").main()
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


def _look_after_ranks(line: socket.socket, wanted: dict[str, Any]) -> int:
    port = _free_port()
    for node in range(1, wanted["nodes"]):
        _make_node(Path(wanted["folder"]), node)
    ranks = {_fork(rank, wanted, port): rank for rank in range(wanted["processes"] * wanted["nodes"])}
    code = 0
    while ranks:
        if _gone(line):
            code = 1
        for rank in list(ranks):
            ended, status = os.waitpid(rank, os.WNOHANG)
            if ended:
                del ranks[rank]
                code = code or int(status != 0)
        for rank in ranks if code else ():
            os.kill(rank, signal.SIGTERM)
        time.sleep(_POLL_S)
    return code


def _free_port() -> int:
    """A port that no client is given by the system meanwhile, and no other process of this kind takes."""
    with socket.socket() as free:
        for port in range(20_000 + os.getpid() % 10_000, 32_000):
            with contextlib.suppress(OSError):
                free.bind(("127.0.0.1", port))
                return port
    sys.exit("there is no free port")


def _make_node(first: Path, node: int) -> None:
    """Lay out a further node's folder as its worker does for its ranks: the same spec, and another scratch folder."""
    from ft_assets.workers.training.distributed.rank_files import ALIVE, SCRATCH, SPEC

    folder = node_folder(first, node)
    folder.mkdir()
    for name in (SPEC, ALIVE):
        (folder / name).symlink_to(first / name)
    (folder / SCRATCH).write_text(json.dumps(str(folder / "scratch")))


def _fork(rank: int, wanted: dict[str, Any], port: int) -> int:
    if process := os.fork():
        return process
    each = wanted["processes"]
    node, local = divmod(rank, each)
    numbers = {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": each * wanted["nodes"], "LOCAL_WORLD_SIZE": each}
    os.environ.update({name: str(value) for name, value in numbers.items()})
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    sys.argv = ["rank", str(node_folder(Path(wanted["folder"]), node))]
    try:
        if wanted["prepare"]:
            module, _, name = wanted["prepare"].partition(":")
            getattr(import_module(module), name)()
        import_module("ft_assets.workers.training.rank").main()
    finally:
        os._exit(1)


if __name__ == "__main__":
    if len(sys.argv) == 3:
        _serve(sys.argv[1], int(sys.argv[2]))
        sys.exit()
    sys.exit(run_ranks(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
