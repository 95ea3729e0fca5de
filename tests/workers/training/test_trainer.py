"""The trainer's set-up: one GPU per process, and trained weights in float32."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch

# Before a worker that needs no bitsandbytes hides it: see test_matrix.py.
from peft import PeftModel  # noqa: F401
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM, get_scheduler

from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.layout import Layout, local_rank
from ft_assets.workers.base_models.tensors import stored_dtype
from ft_assets.workers.evals.model import computed_in
from ft_assets.workers.training.attempt_plan import make_plan
from ft_assets.workers.training.distributed import launch
from ft_assets.workers.training.methods import make_objective
from ft_assets.workers.training.model import load_base
from ft_assets.workers.training.reader import StepReader
from ft_assets.workers.training.train import train
from ft_assets.workers.training.trainer import PackedTrainer, rate_share, trainer_config
from ft_resources.errors import UserError
from tests.fake_base import make_fake_base
from tests.workers.training.conftest import Bench, make_bench, publish, step_rows
from tests.workers.training.variety import make_variety


def built(bench: Bench, device: str = "cpu") -> PackedTrainer:
    """A trainer as ``train`` builds one; with ``device`` cuda it computes on the CPU where there is no GPU."""
    base, pack = bench.inputs["base"].folder(bench.scratch / "base"), bench.pack
    plan = make_plan(bench.params, bench.runtime, pack, pack)
    model = load_base(base, plan.training, full=plan.full, four_bit=plan.variant.four_bit)
    return PackedTrainer(
        reader=StepReader(pack, plan.order, plan.micro_windows),
        objective=make_objective(bench.params),
        before_update=lambda step, loss, grad_norm: None,
        model=model,
        args=trainer_config(plan.training, plan.order, bench.scratch, device),
        lora=plan.lora,
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


@pytest.mark.training
def test_adapters_of_a_quantised_base_and_their_moments_are_float32(tmp_path: Path) -> None:
    """TRL casts them to bfloat16 when the trainer is built, in which small updates vanish."""
    trainer = built(make_variety(tmp_path, "sft", "qlora", precision="bf16"))
    trainer.args.max_steps = 2
    trainer.train()
    model: Any = trainer.model
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    assert model.is_loaded_in_4bit
    assert {weight.dtype for weight in trained} == {torch.float32}
    assert trainer.optimizer is not None
    moments = [trainer.optimizer.state[weight] for weight in trained]
    assert {each[name].dtype for each in moments for name in ("exp_avg", "exp_avg_sq")} == {torch.float32}


@pytest.mark.training
def test_the_first_step_learns_and_the_rate_rises_in_equal_parts_to_the_last_step_of_the_warm_up(
    tmp_path: Path,
) -> None:
    result = train(make_bench(tmp_path, documents=40, warmup_ratio=0.2, schedule="linear").context())
    rates = [row["learning_rate"] for row in step_rows(result) if "loss" in row]
    warmup = math.ceil(0.2 * len(rates))
    assert warmup > 1
    assert rates[: warmup + 1] == pytest.approx([3e-3 * min(1, k / warmup) for k in range(1, warmup + 2)])


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant_with_warmup"])
@pytest.mark.parametrize(("warmup", "steps"), [(0, 1), (1, 1), (0, 10), (1, 10), (3, 10), (10, 10)])
def test_no_step_has_a_rate_of_nothing_and_after_the_warm_up_it_is_that_of_transformers(
    schedule: str, warmup: int, steps: int
) -> None:
    shares = [rate_share(schedule, done, warmup=warmup, steps=steps) for done in range(steps)]
    assert min(shares) > 0
    assert shares[:warmup] == pytest.approx([k / warmup for k in range(1, warmup + 1)])
    weight = torch.nn.Parameter(torch.ones(1))
    theirs = get_scheduler(schedule, torch.optim.SGD([weight], lr=1.0), warmup, steps).lr_lambdas[0]
    assert shares[warmup:] == pytest.approx([theirs(done) for done in range(warmup, steps)])


@pytest.mark.training
def test_a_full_model_is_stored_in_its_bases_dtype_and_as_large(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, variant="full", documents=16, epochs=1, validate_every_steps=1, keep_best=1)
    stored = bench.inputs["base"].folder(tmp_path / "stored")
    folder = tmp_path / "bfloat16"
    AutoModelForCausalLM.from_pretrained(stored, dtype=torch.bfloat16).save_pretrained(folder)
    for path in stored.glob("token*"):
        (folder / path.name).write_bytes(path.read_bytes())
    bench.inputs["base"] = publish(bench.store, folder, "base_model", "shared", {"source": "hub:acme/tiny"})
    result = train(bench.context())
    for final in (result.folder / "final", *(result.folder / "kept").iterdir()):
        found = load_file(final / "model.safetensors")
        base = load_file(folder / "model.safetensors")
        assert {tensor.dtype for tensor in found.values()} == {torch.bfloat16}
        assert {name: value.shape for name, value in found.items()} == {name: v.shape for name, v in base.items()}
        assert any((found[name] != base[name]).any() for name in base)
        assert stored_dtype(final) == "bfloat16"


def test_a_full_candidate_is_scored_in_the_dtype_of_its_base_on_a_gpu(tmp_path: Path) -> None:
    base = make_fake_base(tmp_path / "base")
    config = json.loads((base / "config.json").read_bytes())
    (base / "config.json").write_text(json.dumps({**config, "dtype": "bfloat16"}))
    assert (computed_in("cuda", base), computed_in("cpu", base)) == ("bfloat16", "float32")
    (base / "config.json").write_text(json.dumps({**config, "dtype": None}))
    assert computed_in("cuda", base) == "float32"


def test_a_run_that_another_version_began_is_not_continued(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    context = bench.context()
    monkeypatch.setitem(CODE_VERSIONS, "checkpoint", "next")
    with pytest.raises(UserError, match="this worker has version next"):
        train(context)


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
