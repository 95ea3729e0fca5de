"""The trainer as it is built: one GPU for a process, and what trains in float32."""

from pathlib import Path

import pytest
import torch

from ft_assets.settings.layout import Layout, local_rank
from ft_assets.workers.base_models.token_ids import load_tokenizer
from ft_assets.workers.training.attempt_plan import make_plan
from ft_assets.workers.training.distributed import launch
from ft_assets.workers.training.methods import make_objective
from ft_assets.workers.training.model import load_base, lora_config
from ft_assets.workers.training.reader import StepReader
from ft_assets.workers.training.trainer import PackedTrainer, trainer_config
from tests.workers.training.conftest import Bench, make_bench


def built(bench: Bench, device: str = "cpu") -> PackedTrainer:
    """A trainer as ``train`` builds one; with ``device`` cuda it computes on the CPU where there is no GPU."""
    base, pack = bench.inputs["base"].folder(bench.scratch / "base"), bench.pack
    plan = make_plan(bench.params, bench.runtime, pack, pack)
    return PackedTrainer(
        reader=StepReader(pack, plan.order, plan.micro_windows),
        objective=make_objective(bench.params),
        before_update=lambda step, loss, grad_norm: None,
        model=load_base(base, plan.training, full=plan.full, four_bit=plan.variant.four_bit),
        args=trainer_config(plan.training, plan.order, bench.scratch, device),
        processing_class=load_tokenizer(base),
        peft_config=lora_config(plan.lora) if plan.lora else None,
    )


@pytest.mark.training
def test_a_process_that_sees_eight_gpus_trains_on_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Transformers counts all of them, and TRL refuses the DataParallel that would follow."""
    monkeypatch.setattr("torch.cuda.device_count", lambda: 8)
    trainer = built(make_bench(tmp_path, documents=8, epochs=1), device="cuda")
    assert (trainer.args.n_gpu, trainer.args.train_batch_size) == (1, 1)
    trainer.train()
    assert trainer.last.step.number == trainer.reader.order.steps
    assert not isinstance(trainer.model_wrapped, torch.nn.DataParallel)


@pytest.mark.parametrize(("device", "apart"), [("cuda", True), ("cpu", False)])
def test_torchrun_shows_each_rank_its_own_gpu_only(device: str, apart: bool, tmp_path: Path) -> None:
    assert ("--virtual-local-rank" in launch._command(device, Layout(processes=8), tmp_path)) is apart


@pytest.mark.parametrize(("rank", "local"), [(0, 0), (3, 3), (4, 0), (6, 2)])
def test_a_rank_knows_its_place_on_its_node_though_every_rank_is_local_rank_0(
    rank: int, local: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {"RANK": rank, "LOCAL_RANK": 0, "LOCAL_WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    assert local_rank() == local
