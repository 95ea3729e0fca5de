"""A machine with GPUs often lacks TRL and datasets: a training from an existing pack does not need them."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ft_assets.workers.training.train import train
from tests.workers.training.conftest import make_bench


@pytest.mark.subprocess
def test_a_worker_without_trl_and_datasets_trains_as_one_with_them(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.workers.training.without_packages", str(tmp_path / "without")]
    run = subprocess.run([*command, "trl", "datasets"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout.splitlines()[-1])
    expected = train(make_bench(tmp_path / "with", documents=20, epochs=1).context()).facts
    assert found["steps"] == expected["steps"]
    assert found["train_loss"] == pytest.approx(expected["train_loss"], rel=1e-5)
