"""Ranks that the kernel killed for lack of memory are told apart from preempted ones."""

from pathlib import Path

import pytest

from ft_assets.settings.layout import Layout, layout_of
from ft_assets.workers.training.distributed import endings, launch
from ft_resources.worker_context import Preempted, WorkContext
from tests.workers.training.conftest import Bench


@pytest.mark.parametrize(
    ("text", "count"),
    [("low 0\nmax 4\noom 1\noom_kill 3\n", 3), ("low 0\n", 0), ("oom_kill many\n", 0), ("nothing", 0)],
)
def test_the_containers_count_is_read_as_far_as_it_tells(tmp_path: Path, text: str, count: int) -> None:
    events = tmp_path / "memory.events"
    events.write_text(text)
    assert launch.killed_for_memory(events) == count
    assert launch.killed_for_memory(tmp_path / "absent") == 0


@pytest.mark.parametrize(("counts", "error"), [([2, 3], MemoryError), ([2, 2], Preempted)], ids=["memory", "otherwise"])
def test_a_rank_that_the_kernel_ended_for_memory_is_out_of_memory_and_no_preemption(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, counts: list[int], error: type[BaseException]
) -> None:
    def ended_without_a_word(context: WorkContext, layout: Layout, folder: Path) -> None:
        endings.write_begun(folder, 0)

    monkeypatch.setattr(launch, "_run", ended_without_a_word)
    monkeypatch.setattr(launch, "killed_for_memory", lambda: counts.pop(0))
    bench.runtime["processes"] = 2
    with pytest.raises(error):
        launch.run_ranks(bench.context(), layout_of(bench.runtime))
