"""A worker with ranks as processes, started by torchrun and stopped by real signals."""

import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from ft_resources.outcomes import EXIT_CODES, Outcome
from tests.workers.training.conftest import make_bench
from tests.workers.training.test_worker import TIMEOUT_S, progress, start, wait_for

pytestmark = pytest.mark.training

SETTINGS: dict[str, Any] = {"epochs": 800, "global_batch_size": 4, "micro_batch_size": 2}


def ranks_below(folder: Path) -> list[int]:
    return [int(path.read_text()) for path in folder.glob("*/ranks/begun-*")]


def wait_until_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + 30
    while any(psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_ranks_end_with_their_killed_worker_and_those_of_the_next_attempt_save_when_it_is_asked_to_stop(
    tmp_path: Path,
) -> None:
    bench = make_bench(tmp_path / "bench", **SETTINGS)
    bench.runtime |= {"processes": 2, "checkpoint_every_steps": 5}
    process = start(bench, tmp_path, 1)
    wait_for(process, lambda: bench.store.exists(f"{bench.spec(1).attempt_path}/saves/000010/save.json"))
    pids = ranks_below(tmp_path)
    assert len(pids) == 2
    process.kill()
    process.wait()
    wait_until_gone(pids)
    bench.runtime["checkpoint_every_steps"] = 10_000
    for path in tmp_path.glob("*/ranks/begun-*"):
        path.unlink()
    process = start(bench, tmp_path, 2)
    wait_for(process, lambda: progress(bench, 2)[1] > 10)
    pids = ranks_below(tmp_path)
    process.terminate()
    assert process.wait(TIMEOUT_S) == EXIT_CODES[Outcome.PREEMPTED]
    wait_until_gone(pids)
    (save,) = bench.store.folders(f"{bench.spec(2).attempt_path}/saves")
    assert 10 < int(save) < bench.order.steps
