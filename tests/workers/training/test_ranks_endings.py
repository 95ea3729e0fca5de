"""The attempt ends with the error of the rank that failed."""

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ft_assets.settings.layout import Layout, layout_of
from ft_assets.workers.training.distributed.endings import RanksFailed, raise_ending, write_begun, write_ending
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.reader import dealt
from ft_resources.errors import BadData, BadRecipe, Diverged, OutOfMemory, UserError
from ft_resources.worker_context import Preempted

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
