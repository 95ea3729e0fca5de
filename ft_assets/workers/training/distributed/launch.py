"""The worker's side of a training on several processes: start the ranks, forward their reports, stop with them.

The worker itself does not train and does not import torch. It alone reports for the attempt: heartbeat, progress,
steps, log, result, outcome. On further nodes it reports nothing.
"""

import fcntl
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from ft_assets.settings.layout import Layout, node_rank
from ft_assets.workers.training.distributed import rank_files as rank
from ft_assets.workers.training.distributed.endings import raise_ending
from ft_resources.errors import UserError
from ft_resources.outcomes import grace_s
from ft_resources.worker_context import Preempted, WorkContext, WorkResult

_LOOK_S = 0.1
RANK_PROCESS = "ft_assets.workers.training.rank"
"""The module that torchrun starts as each rank."""
_END_S = 10.0
"""Time that torchrun has to stop its ranks."""


def run_ranks(context: WorkContext, layout: Layout) -> WorkResult:
    """Train ``context.spec`` on this node's ranks until they end.

    Raises the first failed rank's exception, Preempted if the ranks were asked to stop or one was killed, MemoryError
    if the kernel killed one for lack of memory, RanksFailed for an internal error. A rank that dies ends all others
    within seconds.
    """
    folder = context.scratch / "ranks"
    folder.mkdir(parents=True)
    (folder / rank.SPEC).write_text(context.spec.model_dump_json())
    (folder / rank.SCRATCH).write_text(json.dumps(str(context.scratch)))
    with kills_explained(context):
        with (folder / rank.ALIVE).open("wb") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)
            # A stop request must not end this process before it has ended the ranks.
            with context.graceful():
                _run(context, layout, folder)
        raise_ending(folder)
    if node_rank():
        return WorkResult(folder=context.output)
    return WorkResult(folder=context.output, facts=json.loads((folder / rank.RESULT).read_bytes()))


@contextmanager
def kills_explained(context: WorkContext) -> Iterator[None]:
    """Raise MemoryError in place of Preempted if the kernel killed one of the worker's processes for lack of memory."""
    before = killed_for_memory()
    try:
        yield
    except Preempted:
        if not context.stop_requested and killed_for_memory() > before:
            raise MemoryError("the kernel ended a process, as the container's memory was used up") from None
        raise


def killed_for_memory(events: Path = Path("/sys/fs/cgroup/memory.events")) -> int:
    """How many processes of this container the kernel has killed for lack of memory, as far as it reports
    (https://docs.kernel.org/admin-guide/cgroup-v2.html, memory.events)."""
    try:
        found = dict(line.split() for line in events.read_text().splitlines())
        return int(found.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0


def _run(context: WorkContext, layout: Layout, folder: Path) -> None:
    """Run torchrun to its end."""
    (folder / rank.EVENTS).touch()
    with (folder / rank.EVENTS).open() as events:
        command = _command(context.runtime["device"], layout, folder)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=_environment(layout), start_new_session=True)
        pass_on = _passing_on(context, events)
        try:
            while process.poll() is None:
                pass_on()
                if context.stop_requested and not (folder / rank.STOP).exists():
                    if not (folder / rank.GRACEFUL).exists():
                        raise Preempted
                    (folder / rank.STOP).touch()
                time.sleep(_LOOK_S)
        finally:
            _end(process)
        pass_on()


def _command(device: str, layout: Layout, folder: Path) -> list[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(layout.processes)]
    command += ["--nnodes", str(layout.nodes), "--max-restarts", "0", "--monitor-interval", "0.2"]
    if device == "cuda":
        # A rank sees its own GPU only, as the first.
        command += ["--virtual-local-rank"]
    if layout.nodes == 1:
        command += ["--standalone"]
    else:
        if "MASTER_ADDR" not in os.environ:
            raise UserError(
                f"{layout.nodes} nodes cannot find each other: MASTER_ADDR is not set",
                where="runtime.nodes",
                remedy="Set MASTER_ADDR to the first node's host name on each node, and NODE_RANK to its number.",
            )
        command += ["--node-rank", str(node_rank()), "--master-addr", os.environ["MASTER_ADDR"]]
        command += ["--master-port", os.environ.get("MASTER_PORT", "29500")]
    return [*command, "-m", RANK_PROCESS, str(folder)]


def _environment(layout: Layout) -> dict[str, str]:
    """Our environment, with the machine's cores divided among the ranks: torchrun would give each one thread."""
    threads = max(1, len(os.sched_getaffinity(0)) // layout.processes) if hasattr(os, "sched_getaffinity") else 1
    return {"OMP_NUM_THREADS": str(threads), **os.environ}


def _passing_on(context: WorkContext, events: IO[str]) -> Callable[[], None]:
    """A function that forwards rank 0's new reports to the store."""
    rest = ""

    def pass_on() -> None:
        nonlocal rest
        *lines, rest = (rest + events.read()).split("\n")
        for line in lines:
            event: dict[str, Any] = json.loads(line)
            if "step" in event:
                context.step(**event["step"])
            else:
                context.progress(**event["progress"])
                if "save_s" in event["progress"]:
                    context.grace_s = grace_s(event["progress"]["save_s"])

    return pass_on


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Stop torchrun and its ranks: it ends its ranks when it is asked to end."""
    process.terminate()
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        # The ranks end when this process releases the lock.
        process.kill()
        process.wait()
