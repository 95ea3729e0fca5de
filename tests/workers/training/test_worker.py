"""The trainer as a process, killed and stopped by real signals."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.workers.training.data_ledger import check_ledger
from ft_assets.workers.training.train import train
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.outcomes import EXIT_CODES, Outcome
from tests.workers.training.conftest import Bench, content, make_bench

pytestmark = pytest.mark.training

SETTINGS: dict[str, Any] = {"epochs": 20}
TIMEOUT_S = 120


def start(bench: Bench, folder: Path, attempt: int) -> subprocess.Popen[bytes]:
    spec = folder / f"spec-{attempt}.json"
    spec.write_text(bench.spec(attempt).model_dump_json())
    with (folder / f"log-{attempt}.txt").open("wb") as log:
        command = [sys.executable, "-m", "ft_assets.worker", str(spec)]
        return subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"FT_SCRATCH": str(folder)})


def wait_for(process: subprocess.Popen[bytes], condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not condition():
        assert process.poll() is None, f"the worker ended early, with {process.returncode}"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def finish(bench: Bench, folder: Path, attempt: int) -> Artifact:
    process = start(bench, folder, attempt)
    assert process.wait(TIMEOUT_S) == EXIT_CODES[Outcome.DONE], (folder / f"log-{attempt}.txt").read_text()
    return Artifacts(bench.store).get(bench.spec().address)


def progress(bench: Bench, attempt: int) -> tuple[str, int]:
    """Phase and steps done."""
    found = bench.store.find_json(f"{bench.spec(attempt).attempt_path}/progress.json") or {"phase": "", "done": 0}
    return found["phase"], found["done"]


def test_a_worker_killed_by_sigkill_and_started_again_publishes_the_bytes_of_a_quiet_one(tmp_path: Path) -> None:
    bench = make_bench(tmp_path / "killed", **SETTINGS)
    bench.runtime["checkpoint_every_steps"] = 7
    process = start(bench, tmp_path, 1)
    wait_for(process, lambda: bench.store.exists(f"{bench.spec(1).attempt_path}/saves/000014/save.json"))
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert not bench.store.exists(f"{bench.spec(1).attempt_path}/outcome.json")
    resumed = finish(bench, tmp_path, 2)
    assert resumed.facts["resumed"][0]["step"] >= 14
    expected = content(train(make_bench(tmp_path / "quiet", **SETTINGS).context()))
    assert {name: resumed.read(name) for name in expected} == expected
    assert check_ledger(resumed.read("ledger.jsonl").decode().splitlines(), bench.pack, bench.order) == []


def test_sigterm_ends_a_worker_as_preempted_at_once_while_loading_and_with_a_save_while_training(
    tmp_path: Path,
) -> None:
    bench = make_bench(tmp_path / "stopped", epochs=800)
    bench.runtime["checkpoint_every_steps"] = 10_000
    process = start(bench, tmp_path, 1)
    wait_for(process, lambda: progress(bench, 1)[0] == "loading libraries")
    process.terminate()
    assert process.wait(20) == EXIT_CODES[Outcome.PREEMPTED]
    process = start(bench, tmp_path, 2)
    wait_for(process, lambda: progress(bench, 2)[1] > 0)
    process.terminate()
    assert process.wait(20) == EXIT_CODES[Outcome.PREEMPTED]
    assert bench.store.get_json(f"{bench.spec(2).attempt_path}/outcome.json")["outcome"] == "preempted"
    (save,) = bench.store.folders(f"{bench.spec(2).attempt_path}/saves")
    assert 0 < int(save) < bench.order.steps
