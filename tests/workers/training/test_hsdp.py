"""Weights in shards within a node, with a copy on each node: the gradients are those of one process."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.training.methods.sft import summed_loss
from ft_assets.workers.training.model import load_base
from tests.fake_base import make_fake_base
from tests.workers.training.conftest import write_pack

pytestmark = pytest.mark.training


@pytest.mark.parametrize("together", [1, 2])
def test_four_ranks_of_two_nodes_hold_half_each_and_have_the_gradients_of_one(tmp_path: Path, together: int) -> None:
    base, pack = make_fake_base(tmp_path / "base"), write_pack(tmp_path / "pack", "train", 40)
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "4", "--standalone"]
    subprocess.run(
        [*command, "-m", "tests.workers.training.hsdp_rank", str(tmp_path), str(together)], check=True, timeout=600
    )

    model = load_base(base, TrainingSettings(precision="fp32"), full=True)
    summed_loss(model, micro_batch(pack, range(8))).backward()
    found = load_file(tmp_path / "gradients.safetensors")
    for name, weight in model.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-5)
    numbers = sum(weight.numel() for weight in model.parameters())
    assert json.loads((tmp_path / "held.json").read_text()) == pytest.approx(numbers / 2, rel=0.05)
