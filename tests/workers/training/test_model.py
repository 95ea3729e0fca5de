"""How a base is loaded and the host memory that this takes; ranks that were killed for lack of memory."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from ft_assets.settings.layout import Layout, layout_of
from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.training.distributed import endings, launch
from ft_assets.workers.training.model import load_base
from ft_resources.errors import UserError
from ft_resources.worker_context import Preempted, WorkContext
from tests.fake_base import make_fake_base
from tests.workers.training.conftest import Bench

SETTINGS = TrainingSettings(precision="fp32")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("bases") / "base")


def places(model: Any) -> set[str]:
    return {value.device.type for value in (*model.parameters(), *model.buffers())}


@pytest.mark.parametrize("full", [True, False])
def test_each_weight_goes_to_the_device_as_it_is_read(base: Path, full: bool) -> None:
    # Stands for a GPU: nothing is left on the CPU.
    assert places(load_base(base, SETTINGS, full=full, device="meta")) == {"meta"}
    assert places(load_base(base, SETTINGS, full=full)) == {"cpu"}


def test_a_frozen_base_in_the_dtype_of_its_files_is_mapped_and_not_copied(base: Path) -> None:
    """So the ranks of a machine hold one copy between them, in the page cache."""
    model = load_base(base, SETTINGS, full=False)
    mapped = set()
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("model.safetensors"):
            start, end = (int(edge, 16) for edge in line.split()[0].split("-"))
            mapped.add((start, end))
    weights = [value for name, value in model.named_parameters() if name.endswith("proj.weight")]
    assert weights
    for weight in weights:
        assert weight.dtype == torch.float32
        assert any(start <= weight.data_ptr() < end for start, end in mapped)


def test_fp8_without_torchao_is_refused_with_the_extra_to_install(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("torchao", "torchao.float8"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(UserError, match="needs torchao") as refused:
        load_base(base, TrainingSettings(precision="fp8"), full=True)
    assert "extra float8" in str(refused.value.remedy)


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
