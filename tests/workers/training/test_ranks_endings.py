"""The attempt ends with the error of the rank that failed."""

import json
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ft_assets import worker
from ft_assets.settings.layout import Layout, layout_of, node_name
from ft_assets.workers.training.distributed import hangs
from ft_assets.workers.training.distributed.endings import RanksFailed, raise_ending, write_begun, write_ending
from ft_assets.workers.training.distributed.hangs import Place, verdict
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.reader import dealt
from ft_assets.workers.training.train import train
from ft_resources.attempts import Attempt
from ft_resources.errors import BadData, BadRecipe, Diverged, Hung, OutOfMemory, UserError
from ft_resources.outcomes import Outcome
from ft_resources.worker_context import Preempted, WorkContext, WorkResult
from tests.clock import Clock
from tests.workers.training.conftest import make_bench
from tests.workers.training.test_ranks import rows, two_ranks

pytestmark = pytest.mark.training

GONE = RuntimeError("[gloo/transport/tcp/pair.cc:553] Connection closed by peer [127.0.0.1]:8082")


def end(folder: Path, *problems: BaseException | str | None) -> None:
    """Ranks that end like this, one after the other; "killed" leaves no record."""
    for rank, problem in enumerate(problems):
        write_begun(folder, rank)
        if not isinstance(problem, str):
            write_ending(folder, rank, problem)


@pytest.mark.parametrize("kind", [Diverged, OutOfMemory, BadData])
def test_a_users_error_of_a_rank_comes_back_whole_whatever_became_of_the_others(
    tmp_path: Path, kind: type[UserError]
) -> None:
    end(tmp_path, GONE, kind("the loss is nan", where="step 4", remedy="Lower it."), "killed")
    with pytest.raises(kind) as caught:
        raise_ending(tmp_path)
    assert (caught.value.what, caught.value.where, caught.value.remedy) == ("the loss is nan", "step 4", "Lower it.")


def test_a_killed_rank_is_a_preemption_though_the_others_fail_without_it(tmp_path: Path) -> None:
    end(tmp_path, GONE, "killed")
    with pytest.raises(Preempted):
        raise_ending(tmp_path)


def test_ranks_that_were_asked_to_stop_are_a_preemption(tmp_path: Path) -> None:
    end(tmp_path, Preempted(), Preempted())
    with pytest.raises(Preempted):
        raise_ending(tmp_path)


def test_an_error_of_ours_is_no_preemption_and_would_not_be_tried_for_ever(tmp_path: Path) -> None:
    end(tmp_path, ValueError("a bug"), "killed")
    with pytest.raises(RanksFailed, match="rank 0: ValueError: a bug"):
        raise_ending(tmp_path)


def test_ranks_that_never_came_up_are_no_preemption(tmp_path: Path) -> None:
    with pytest.raises(RanksFailed):
        raise_ending(tmp_path)


def test_ranks_that_did_their_work_raise_nothing(tmp_path: Path) -> None:
    end(tmp_path, None, None)
    raise_ending(tmp_path)


@pytest.mark.parametrize("world", [1, 2, 3, 8])
@pytest.mark.parametrize("windows", [1, 5, 16])
def test_ranks_deal_every_window_out_once_and_have_as_many_passes(world: int, windows: int) -> None:
    dealt_out = [dealt(np.arange(windows), 2, Ranks(rank=rank, world=world)) for rank in range(world)]
    assert len({len(shares) for shares in dealt_out}) == 1
    assert sorted(window for shares in dealt_out for share in shares for window in share.windows) == list(
        range(windows)
    )


def test_one_process_has_nobody_to_share_with_and_what_means_nothing_is_refused() -> None:
    assert layout_of({"processes": 1, "sharding": "auto"}) == Layout()
    assert layout_of({"processes": 2, "nodes": 3}).world == 6
    with pytest.raises(BadRecipe):
        layout_of({"processes": 2, "sharding": "zero4"})


def test_an_engine_trains_where_ranks_divide_what_is_large_by_zero() -> None:
    stages = {name: Layout(processes=2, sharding=name) for name in ("none", "fsdp", "zero1", "zero2", "zero3")}
    assert [one.zero_stage(adapters=False) for one in stages.values()] == [0, 0, 1, 2, 3]
    assert [one.zero_stage(adapters=True) for one in stages.values()] == [0, 0, 0, 0, 3]
    assert [name for name, one in stages.items() if one.shards > 1] == ["fsdp"]
    assert Layout(processes=4, nodes=2, sharding="fsdp").shards == 8
    assert Layout(processes=4, nodes=2, sharding="hsdp").shards == 4
    assert Layout(sharding="zero3").zero_stage(adapters=False) == 0


def test_a_rank_ends_with_its_worker(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib\n"
        "from ft_assets.workers.training.distributed.rank_files import live_with_worker\n"
        "live_with_worker(pathlib.Path(sys.argv[1])); print('up', flush=True); sys.stdin.read()"
    )
    hold = (
        "import fcntl, sys\n"
        "file = open(sys.argv[1], 'wb'); fcntl.flock(file, fcntl.LOCK_EX); print('up', flush=True); sys.stdin.read()"
    )

    def started(code: str, path: Path) -> subprocess.Popen[bytes]:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        process = subprocess.Popen([sys.executable, "-c", code, str(path)], **pipes)
        assert process.stdout is not None
        process.stdout.readline()
        return process

    worker = started(hold, tmp_path / "alive")
    rank = started(code, tmp_path)
    assert rank.poll() is None
    worker.send_signal(signal.SIGKILL)
    assert rank.wait(600) == 1
    worker.wait()


SETTINGS: dict[str, Any] = {"dropout": 0.0, "epochs": 3, "global_batch_size": 4, "micro_batch_size": 2}
NODES = ("gpu-1", "gpu-1", "gpu-2", "gpu-2")


def test_a_slow_rank_is_named_with_its_node_and_every_step_tells_the_times(
    tmp_path: Path, plant: Callable[[str], None]
) -> None:
    plant("slow_second_rank")
    bench = two_ranks(tmp_path, **SETTINGS)
    result = train(bench.context())
    (alert,) = [alert for alert in result.facts["alerts"] if alert["kind"] == "straggler"]
    assert "all ranks wait for rank 1 on node" in alert["what"]
    slowest, its_s, others_s = (rows(result, key) for key in ("slowest_rank", "slowest_rank_s", "other_ranks_s"))
    assert len(slowest) == len(its_s) == len(others_s) == len(rows(result, "loss"))
    assert {*slowest} == {1}
    assert {*its_s} == {0.4}
    assert {*others_s} == {0.1}


@pytest.mark.parametrize(
    ("stops", "said"), [("second_rank_stops", "has entered only"), ("second_rank_dies_inside", "no longer responds")]
)
def test_a_rank_that_stops_ends_the_attempt_and_is_named_with_the_collective_that_the_others_wait_in(
    tmp_path: Path, plant: Callable[[str], None], stops: str, said: str
) -> None:
    plant(stops)
    bench = two_ranks(tmp_path, **SETTINGS)
    with pytest.raises(Hung, match=rf"rank 1 on [\w.-]+ {said}.*in gloo:\w+, their number \d+, after step 3") as caught:
        train(bench.context())
    assert caught.value.where == "hang"
    kept = f"{bench.spec().attempt_path}/hang"
    first = json.loads(bench.store.get(f"{kept}/rank-0000.json"))
    assert first["verdict"] == str(caught.value)
    assert (first["step"], first["waits_in"][:5]) == (3, "gloo:")
    assert any(not each["retired"] for each in first["recorder"]["entries"])
    assert any("training_step" in line for line in first["stacks"])
    assert bench.store.exists(f"{kept}/rank-0001.json") is (stops == "second_rank_stops")


def test_a_further_node_records_the_fault_as_the_first_may_have_nobody_left_to_tell_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make_bench(tmp_path)

    def hangs(context: WorkContext) -> WorkResult:
        raise Hung("rank 0 on gpu-1 no longer responds", where="hang", remedy="It is tried again.")

    monkeypatch.setattr(worker, "_load", lambda asset: hangs)
    # Signals stay the test runner's.
    monkeypatch.setattr(WorkContext, "install_signal_handler", lambda self: None)
    spec = bench.spec()
    assert worker.follow_spec(spec) is Outcome.PLATFORM_ERROR
    ending = Attempt(bench.store, spec.address, spec.attempt).ending()
    assert ending is not None
    assert ending.outcome is Outcome.PLATFORM_ERROR
    assert ending.error is not None
    assert (ending.error["type"], ending.error["what"]) == ("Hung", "rank 0 on gpu-1 no longer responds")


def test_a_machine_is_called_as_the_cluster_calls_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FT_NODE", raising=False)
    assert node_name() == socket.gethostname()
    monkeypatch.setenv("FT_NODE", "gpu-7")
    assert node_name() == "gpu-7"


def place(rank: int, entered: int, waits_in: str = "nccl:all_reduce") -> Place:
    return Place(rank=rank, node=NODES[rank], step=17, entered=entered, waits_in=waits_in, waited_s=600.0)


def test_the_rank_that_has_entered_fewer_collectives_than_others_is_the_one_they_wait_for() -> None:
    problem = verdict({rank: place(rank, 40 - (rank == 2)) for rank in range(4)}, NODES)
    assert problem.what == (
        "rank 2 on gpu-2 has entered only 39; "
        "the others wait for 600 s in nccl:all_reduce, their number 40, after step 17"
    )


def test_a_rank_that_does_not_answer_is_named_before_those_that_it_holds_up() -> None:
    problem = verdict({0: place(0, 40), 1: place(1, 40), 2: place(2, 39)}, NODES)
    assert problem.what.startswith("rank 3 on gpu-2 no longer responds")


def test_where_all_have_entered_as_many_nobody_is_blamed_but_the_network() -> None:
    problem = verdict({rank: place(rank, 40) for rank in range(4)}, NODES)
    assert problem.what.startswith("the ranks wait for each other for 600 s in nccl:all_reduce")
    assert "network" in problem.remedy


class Store:
    """A store as ``HangWatch`` uses it, with one rank that never calls."""

    def clone(self) -> "Store":
        return self

    def check(self, keys: list[str]) -> bool:
        return False


def test_others_are_waited_for_as_long_as_steps_take_and_half_an_hour_where_there_are_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    watch = hangs.HangWatch(Store(), 0, NODES, keep=lambda *_: None, end=lambda _: None)  # type: ignore[arg-type]
    clock = Clock(0.0)
    monkeypatch.setattr(hangs.time, "monotonic", clock)
    limits = []
    for clock.now in (0.0, 5.0, 95.0, 1000.0):
        watch.step(int(clock.now))
        limits.append(watch.limit_s)
    watch.pause()
    watch.close()
    assert [*limits, watch.limit_s] == [1800, 600, 900, 1800, 1800]
