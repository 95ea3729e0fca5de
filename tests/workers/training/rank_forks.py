"""Stands for torchrun where a test needs ranks quickly: forks them from a process that has imported the libraries.

    python -m tests.workers.training.rank_forks serve SOCKET [PACKAGE ...]
        the process that forks; of the packages that workers leave out, it has those
    python tests/workers/training/rank_forks.py SOCKET PROCESSES NODES FOLDER [MODULE:FUNCTION]
        in torchrun's place on all nodes: ends as torchrun does

Like torchrun it ends all ranks when one fails, or when it is ended itself.
"""

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ft_assets.settings.layout import Layout

_POLL_S = 0.02
# Importing the libraries takes ten seconds of a free core.
_PATIENCE_S = 180.0


@contextlib.contextmanager
def forking_ranks(path: Path, *packages: str) -> Iterator[Path]:
    """While inside, a process forks ranks for whoever asks at the socket that is given.

    ``packages`` are those of ``libraries.UNUSED`` that the ranks need beside DeepSpeed: PEFT looks for them once.
    """
    import subprocess

    place = path / "forks"
    command = [sys.executable, "-m", "tests.workers.training.rank_forks", "serve", str(place), *packages]
    process = subprocess.Popen(command)
    try:
        yield place
    finally:
        process.kill()
        process.wait()


def starting(forks: Path, *prepare: str) -> Callable[[str, "Layout", Path], list[str]]:
    """What starts ranks in torchrun's place; ``prepare`` is called in each of them before it works."""

    def command(device: str, layout: "Layout", folder: Path) -> list[str]:
        return [sys.executable, __file__, str(forks), str(layout.processes), str(layout.nodes), str(folder), *prepare]

    return command


def node_folder(folder: Path, node: int) -> Path:
    """Where the ranks of ``node`` work if those of the first do in ``folder``."""
    return folder if node == 0 else folder.with_name(f"{folder.name}-of-node-{node}")


def ask(place: str, processes: int, nodes: int, folder: str, prepare: str = "") -> int:
    """Run ``processes`` ranks on each of ``nodes`` in ``folder`` to their end; the exit code that torchrun would have.

    ``prepare`` names a function that is called in each rank before it works.
    """
    deadline = time.monotonic() + _PATIENCE_S
    with socket.socket(socket.AF_UNIX) as line:
        while line.connect_ex(place):
            if time.monotonic() > deadline:
                sys.exit(f"no process forks ranks at {place}")
            time.sleep(_POLL_S)
        line.sendall(
            json.dumps({"processes": processes, "nodes": nodes, "folder": folder, "prepare": prepare}).encode() + b"\n"
        )
        return int(line.recv(16) or b"1")


def _serve(place: str, *packages: str) -> None:
    from ft_assets.workers.libraries import UNUSED, absent, keep_offline

    keep_offline()
    os.environ["DS_ACCELERATOR"] = "cpu"
    with absent(*set(UNUSED) - {"deepspeed", *packages}):
        import_module("deepspeed")
        loaded = ("training_loop", "trainer", "model", "stop_requests", "train", "methods.sft", "ranks")
        for module in loaded:
            import_module(f"ft_assets.workers.training.{module}")
        import_module("transformers.models.llama.modeling_llama")
        # Done by ranks at their end, and irrelevant to these tests.
        train: Any = import_module("ft_assets.workers.training.train")
        train.write_pictures = lambda *_: None
        gc.freeze()
        with socket.socket(socket.AF_UNIX) as door:
            door.bind(place)
            door.listen()
            while True:
                _answer(door.accept()[0])


def _answer(line: socket.socket) -> None:
    wanted = json.loads(line.makefile().readline())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    for node in range(1, wanted["nodes"]):
        _make_node(Path(wanted["folder"]), node)
    ranks = {_fork(rank, wanted, port): rank for rank in range(wanted["processes"] * wanted["nodes"])}
    line.setblocking(False)
    code = 0
    while ranks:
        with contextlib.suppress(BlockingIOError):
            if not line.recv(1):
                code = 1
        for rank in list(ranks):
            ended, status = os.waitpid(rank, os.WNOHANG)
            if ended:
                del ranks[rank]
                code = code or int(status != 0)
        for rank in ranks if code else ():
            os.kill(rank, signal.SIGTERM)
        time.sleep(_POLL_S)
    with contextlib.suppress(OSError):
        line.sendall(str(code).encode())
    line.close()


def _make_node(first: Path, node: int) -> None:
    """What the worker of a further node makes for its ranks: the same spec, and a scratch folder of its own."""
    from ft_assets.workers.training.distributed.rank_files import ALIVE, SCRATCH, SPEC

    folder = node_folder(first, node)
    folder.mkdir()
    for name in (SPEC, ALIVE):
        (folder / name).symlink_to(first / name)
    (folder / SCRATCH).write_text(json.dumps(str(folder / "scratch")))


def _fork(rank: int, wanted: dict[str, Any], port: int) -> int:
    if process := os.fork():
        return process
    from ft_assets.workers.training.rank import main

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
        main()
    finally:
        os._exit(1)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        _serve(*sys.argv[2:])
    sys.exit(ask(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:]))
