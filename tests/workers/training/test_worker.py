"""The trainer as a process, alone or with ranks, stopped and killed by real signals."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from ft_resources.outcomes import EXIT_CODES, Outcome
from tests.workers.training.conftest import Bench, make_bench
from tests.workers.training.forks import Forks

pytestmark = pytest.mark.training

# Far more than the tests wait for.
SETTINGS: dict[str, Any] = {"epochs": 800}
TIMEOUT_S = 600


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    bench = make_bench(tmp_path / "bench", **SETTINGS)
    bench.runtime["checkpoint_every_steps"] = 10_000
    return bench


def written(bench: Bench, folder: Path) -> Path:
    spec = folder / "spec.json"
    spec.write_text(bench.spec().model_dump_json())
    return spec


def start(bench: Bench, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ft_assets.worker", str(written(bench, folder))]
    return subprocess.Popen(command, env=os.environ | {"FT_SCRATCH": str(folder)})


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def progress(bench: Bench) -> tuple[str, int]:
    """Phase and steps done."""
    found = bench.store.find_json(f"{bench.spec().attempt_path}/progress.json") or {"phase": "", "done": 0}
    return found["phase"], found["done"]


def ranks_below(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in folder.glob("*/ranks/begun-*")]


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_sigterm_ends_a_worker_as_preempted_at_once_while_it_loads(bench: Bench, tmp_path: Path) -> None:
    process = start(bench, tmp_path)
    wait_until(lambda: progress(bench)[0] == "loading libraries" or process.poll() is not None)
    process.terminate()
    assert process.wait(TIMEOUT_S) == EXIT_CODES[Outcome.PREEMPTED]
    assert bench.store.get_json(f"{bench.spec().attempt_path}/outcome.json")["outcome"] == "preempted"


def test_ranks_of_torchrun_save_when_their_worker_is_asked_to_stop(bench: Bench, tmp_path: Path) -> None:
    bench.runtime["processes"] = 2
    process = start(bench, tmp_path)
    wait_until(lambda: progress(bench)[1] > 0 or process.poll() is not None)
    pids = ranks_below(tmp_path)
    assert len(pids) == 2
    process.terminate()
    assert process.wait(TIMEOUT_S) == EXIT_CODES[Outcome.PREEMPTED]
    wait_until(lambda: all(map(gone, pids)))
    (save,) = bench.store.folders(f"{bench.spec().attempt_path}/saves")
    assert 0 < int(save) < bench.order.steps


def test_ranks_end_with_their_killed_worker(bench: Bench, forks: Forks, tmp_path: Path) -> None:
    bench.runtime["processes"] = 2
    worker = forks.start(written(bench, tmp_path), tmp_path)
    wait_until(lambda: progress(bench)[1] > 0)
    pids = ranks_below(tmp_path)
    assert len(pids) == 2
    worker.send(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    wait_until(lambda: all(map(gone, pids)))
