"""What a training's environment gets before PyTorch is imported."""

import os
import sys
from pathlib import Path

import pytest

from ft_assets.settings.layout import Layout
from ft_assets.workers.libraries import grow_segments
from ft_assets.workers.training.distributed import launch
from ft_assets.workers.training.distributed.endings import RanksFailed
from ft_assets.workers.training.train import train
from ft_resources.errors import UserError
from tests.workers.training.conftest import make_bench

NAMES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
GROWING = "expandable_segments:True"


@pytest.fixture(autouse=True)
def _unset(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES:
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def found() -> dict[str, str]:
    return {name: os.environ[name] for name in NAMES if name in os.environ}


def test_segments_grow_on_a_gpu_and_not_on_a_cpu() -> None:
    grow_segments("cpu")
    assert found() == {}
    grow_segments("cuda")
    assert found() == dict.fromkeys(NAMES, GROWING)


@pytest.mark.parametrize("name", NAMES)
def test_what_the_environment_says_of_the_allocator_stays(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "max_split_size_mb:512")
    grow_segments("cuda")
    assert found() == {name: "max_split_size_mb:512"}


def test_a_training_on_a_gpu_sets_it_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = make_bench(tmp_path, documents=20)
    bench.runtime["device"] = "cuda"
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(UserError, match="no usable GPU"):
        train(bench.context())
    assert found() == dict.fromkeys(NAMES, GROWING)


def test_ranks_are_started_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be torchrun writes its environment down."""
    bench = make_bench(tmp_path, documents=20)
    bench.runtime |= {"device": "cuda", "processes": 2}
    said = tmp_path / "environment"
    program = f"import os; open({str(said)!r}, 'w').write(os.environ.get('PYTORCH_ALLOC_CONF', ''))"

    def command(device: str, layout: Layout, folder: Path) -> list[str]:
        return [sys.executable, "-c", program]

    monkeypatch.setattr(launch, "_command", command)
    with pytest.raises(RanksFailed, match="did not start"):
        train(bench.context())
    assert said.read_text() == GROWING
