"""A worker that trains ends as it is asked to; its pack in a bucket is fetched while the run computes."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from ft_assets.workers.packs.format import CachedFiles, Layout, Pack, PackWriter
from ft_assets.workers.packs.format.layout import ARRAYS, array_name
from ft_assets.workers.packs.sampler import Order
from ft_assets.workers.training.train import train
from ft_assets.workers.training.training_loop import TrainingLoop, fetch_ahead
from ft_resources.file_cache import FileCache
from ft_resources.outcomes import EXIT_CODES, Outcome
from ft_resources.store import Store
from ft_resources.store_layout import Layout as StoreLayout
from tests.workers.packs.made import made_spool
from tests.workers.training.conftest import TENANT, Bench, content, make_bench, publish
from tests.workers.training.forks import Forks
from tests.workers.training.test_train import run_killed_at

pytestmark = pytest.mark.training

# Far more than the tests wait for.
SETTINGS: dict[str, Any] = {"epochs": 800}
TIMEOUT_S = 600


@pytest.fixture
def endless(tmp_path: Path) -> Bench:
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


def test_sigterm_ends_a_worker_as_preempted_at_once_while_it_loads(endless: Bench, tmp_path: Path) -> None:
    process = start(endless, tmp_path)
    wait_until(lambda: progress(endless)[0] == "loading libraries" or process.poll() is not None)
    process.terminate()
    assert process.wait(TIMEOUT_S) == EXIT_CODES[Outcome.PREEMPTED]
    assert endless.store.get_json(f"{endless.spec().attempt_path}/outcome.json")["outcome"] == "preempted"


def test_ranks_of_torchrun_save_when_their_worker_is_asked_to_stop(endless: Bench, tmp_path: Path) -> None:
    endless.runtime["processes"] = 2
    process = start(endless, tmp_path)
    wait_until(lambda: progress(endless)[1] > 0 or process.poll() is not None)
    pids = ranks_below(tmp_path)
    assert len(pids) == 2
    process.terminate()
    assert process.wait(TIMEOUT_S) == EXIT_CODES[Outcome.PREEMPTED]
    wait_until(lambda: all(map(gone, pids)))
    (save,) = endless.store.folders(f"{endless.spec().attempt_path}/saves")
    assert 0 < int(save) < endless.order.steps


def test_ranks_end_with_their_killed_worker(endless: Bench, forks: Forks, tmp_path: Path) -> None:
    endless.runtime["processes"] = 2
    worker = forks.start(written(endless, tmp_path), tmp_path)
    wait_until(lambda: progress(endless)[1] > 0)
    pids = ranks_below(tmp_path)
    assert len(pids) == 2
    worker.send(signal.SIGKILL)
    assert worker.wait() == -signal.SIGKILL
    wait_until(lambda: all(map(gone, pids)))


WINDOWS, SHARDS = 40, 10


class Bucket(Store):
    """A folder that is treated as if it lay elsewhere; notes what is fetched from it, and by which thread."""

    def __init__(self, url: str, layout: StoreLayout = StoreLayout.BESIDE) -> None:
        super().__init__(url, layout=layout)
        self.root = None
        self.fetched: list[tuple[str, str]] = []

    def download(self, path: str, target: Path) -> None:
        self.fetched.append((path.split("/w1/")[-1], threading.current_thread().name))
        super().download(path, target)


def names(splits: Iterable[str]) -> set[str]:
    return {array_name(split, 0, name) for split in splits for name in ARRAYS}


@pytest.mark.parametrize("resumed", [False, True])
def test_a_training_finds_its_pack_there_and_ends_with_the_bytes_of_one_on_local_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, resumed: bool
) -> None:
    # A machine's cache would still have the files of another run.
    monkeypatch.delenv("FT_CACHE", raising=False)
    quiet = train(make_bench(tmp_path / "quiet").context())
    bench = make_bench(tmp_path / "bucket")
    bench.store = Bucket(bench.store.url, bench.store.layout)
    if resumed:
        run_killed_at(bench, 1, 5)
    bench.store.fetched.clear()
    ahead: list[threading.Thread] = []
    prove = TrainingLoop._prove_isolation

    def later(loop: TrainingLoop) -> None:
        assert loop._ahead is not None
        ahead.append(loop._ahead._thread)
        ahead[0].join()
        prove(loop)

    # The first that reads: by then all is there, as it would be in time where steps take longer than files.
    monkeypatch.setattr(TrainingLoop, "_prove_isolation", later)
    result = train(bench.context(2))
    assert [attempt["attempt"] for attempt in result.facts["resumed"]] == [1] * resumed
    assert content(result) == content(quiet)
    by_thread = {name: thread for name, thread in bench.store.fetched if name in names(("train", "validation"))}
    assert set(by_thread.values()) == {"prefetch"}
    assert not ahead[0].is_alive()


def test_files_come_in_the_order_in_which_the_rest_of_a_run_reads_them(tmp_path: Path) -> None:
    # Of every shard some array differs from all others', as equal contents are fetched once.
    spool = made_spool(tmp_path / "spool", [8] * WINDOWS)
    layout = Layout(order=np.arange(WINDOWS), window_offsets=np.arange(WINDOWS + 1))
    for split in ("train", "validation"):
        PackWriter(tmp_path / "pack", split, "chat", 8, shard_tokens=8 * WINDOWS // SHARDS).write(spool, layout)
    store = Bucket(str(tmp_path / "store"))
    files = CachedFiles(publish(store, tmp_path / "pack", "token_pack", TENANT), FileCache(tmp_path / "cache"))
    pack, validation = Pack.open(files, "train"), Pack.open(files, "validation")
    order = Order(windows=WINDOWS, global_batch=3, epochs=2, seed=1)
    position = 2 * WINDOWS - 7
    store.fetched.clear()
    ahead = fetch_ahead(pack, validation, order, position)
    assert ahead is not None
    with ahead:
        ahead._thread.join()
    rest = [int(window) // (WINDOWS // SHARDS) for step in order.read(position) for window in step.windows]
    expected = [array_name("train", shard, "input_ids") for shard in dict.fromkeys(rest)]
    fetched = [name for name, _ in store.fetched if name.startswith("train") and "input_ids" in name]
    assert fetched == expected
    assert 1 < len(expected) < SHARDS


def test_nothing_is_fetched_for_a_pack_in_a_folder(tmp_path: Path) -> None:
    spool = made_spool(tmp_path / "spool", [8] * WINDOWS)
    layout = Layout(order=np.arange(WINDOWS), window_offsets=np.arange(WINDOWS + 1))
    PackWriter(tmp_path / "pack", "train", "chat", 8).write(spool, layout)
    pack = Pack.open(tmp_path / "pack", "train")
    assert fetch_ahead(pack, pack, Order(windows=WINDOWS, global_batch=3, epochs=1, seed=1), 0) is None
