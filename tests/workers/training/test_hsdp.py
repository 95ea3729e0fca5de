"""Weights in shards within a node, with a copy on each node: the training is that of one process."""

import json
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.training.methods.sft import summed_loss
from ft_assets.workers.training.model import load_base
from ft_assets.workers.training.train import train
from ft_resources.worker_context import Preempted, WorkContext
from tests.fake_base import make_fake_base
from tests.workers.training.conftest import content, make_bench, write_pack
from tests.workers.training.forks import Forks, node_folder, run_ranks
from tests.workers.training.test_ranks import assert_same_training, at_step, has_saved, rows

pytestmark = pytest.mark.training


def test_four_ranks_of_two_nodes_hold_half_each_and_have_the_gradients_of_one(tmp_path: Path, forks: Forks) -> None:
    """Also if two ranks share each window."""
    base, pack = make_fake_base(tmp_path / "base"), write_pack(tmp_path / "pack", "train", 40)
    assert run_ranks(str(forks.place), 4, 1, str(tmp_path), "tests.workers.training.hsdp_rank:main") == 0

    model = load_base(base, TrainingSettings(precision="fp32"), full=True)
    summed_loss(model, micro_batch(pack, range(8))).backward()
    found = load_file(tmp_path / "gradients.safetensors")
    for name, weight in model.named_parameters():
        torch.testing.assert_close(found[name], weight.grad, rtol=1e-4, atol=1e-5)
    numbers = sum(weight.numel() for weight in model.parameters())
    assert json.loads((tmp_path / "held.json").read_text()) == pytest.approx(numbers / 2, rel=0.05)


NODES = {"processes": 2, "nodes": 2, "sharding": "hsdp"}


def kill_on_second_node(context: WorkContext, rank: int) -> None:
    folder = node_folder(context.scratch / "ranks", 1)
    os.kill(int((folder / f"begun-{rank}").read_text()), signal.SIGKILL)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("variant", ["full", pytest.param("lora", marks=pytest.mark.long)])
def test_two_nodes_of_two_train_as_one_process_does_and_go_on_from_a_save_to_the_same_bytes(
    tmp_path: Path, variant: str
) -> None:
    """With clipped updates, and micro-batches in which some ranks have no window."""
    settings: dict[str, Any] = {
        "variant": variant,
        "dropout": 0.0,
        "epochs": 3,
        "documents": 40,
        "global_batch_size": 5,
        "micro_batch_size": 1,
        "max_grad_norm": 0.05,
        "validate_every_steps": 4,
    }
    alone = train(make_bench(tmp_path / "alone", **settings).context())
    found = []
    for name in ("quiet", "killed"):
        bench = make_bench(tmp_path / name, **settings)
        bench.runtime |= {**NODES, "checkpoint_every_steps": 2}
        context = bench.context()
        if name == "killed":
            at_step(context, 3, partial(kill_on_second_node, context, 3), partial(has_saved, context))
            with pytest.raises(Preempted):
                train(context)
            context = bench.context(2)
        found.append(train(context))
    quiet, resumed = found
    assert_same_training(alone, quiet)
    assert min(rows(quiet, "grad_norm")) > settings["max_grad_norm"]
    (begun,) = resumed.facts["resumed"]
    assert begun["attempt"] == 1
    assert 2 <= begun["step"] < bench.order.steps
    assert content(resumed) == content(quiet)
