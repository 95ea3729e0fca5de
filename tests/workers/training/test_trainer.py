"""The trainer's set-up: one GPU per process, and trained weights in float32."""

import json
import math
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

# Before a worker that needs no bitsandbytes hides it: see test_matrix.py.
from peft import PeftModel  # noqa: F401
from safetensors.torch import load_file
from torch.optim import AdamW, Muon
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM, get_scheduler

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.layout import Layout, local_rank
from ft_assets.workers.base_models.tensors import stored_dtype
from ft_assets.workers.evals.model import computed_in
from ft_assets.workers.packs.format import Pack, PackWriter
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.packing import one_by_one
from ft_assets.workers.packs.sampler import Order
from ft_assets.workers.training.attempt_plan import make_plan
from ft_assets.workers.training.distributed import launch
from ft_assets.workers.training.methods import make_objective
from ft_assets.workers.training.model import load_base
from ft_assets.workers.training.muon import MuonAndAdamW
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.reader import References, StepReader
from ft_assets.workers.training.reference import score
from ft_assets.workers.training.train import train
from ft_assets.workers.training.trainer import PackedTrainer, rate_share, trainer_config
from ft_assets.workers.training.validation import validation_loss, whole_of_pack
from ft_resources.errors import UserError
from tests.fake_base import VOCABULARY, make_fake_base
from tests.workers.packs.made import made_spool
from tests.workers.training.conftest import Bench, content, make_bench, publish, step_rows, write_pack
from tests.workers.training.method_world import load, made, moved
from tests.workers.training.test_train import rows
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


def llama() -> Any:
    torch.manual_seed(1)
    sizes: Any = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    return LlamaForCausalLM(LlamaConfig(**sizes, vocab_size=50, tie_word_embeddings=False))


def test_matrices_of_the_layers_are_muons_and_all_else_is_adamws() -> None:
    mine, theirs = llama(), llama()
    decayed = [weight for weight in mine.parameters() if weight.ndim > 1]
    vectors = [weight for weight in mine.parameters() if weight.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    ours = MuonAndAdamW(AdamW(groups, lr=1e-2, fused=True), mine)

    named = dict(theirs.named_parameters())
    outer = {name for name in named if "embed" in name or "lm_head" in name}
    matrices = [weight for name, weight in named.items() if weight.ndim == 2 and name not in outer]
    expected = [
        Muon(matrices, lr=1e-2, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"),
        AdamW([named[name] for name in outer], lr=1e-2, weight_decay=0.1, fused=True),
        AdamW([weight for weight in named.values() if weight.ndim == 1], lr=1e-2, weight_decay=0.0, fused=True),
    ]
    tokens = torch.arange(40).reshape(2, 20)
    for _ in range(3):
        for model, optimizers in ((mine, [ours]), (theirs, expected)):
            model(input_ids=tokens, labels=tokens).loss.backward()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    for name, weight in mine.named_parameters():
        assert torch.equal(weight, named[name]), name
    with_two = {name for name, weight in mine.named_parameters() if "exp_avg_sq" in ours.state[weight]}
    assert with_two == outer | {name for name, weight in named.items() if weight.ndim == 1}


@pytest.mark.parametrize("steps", [1, 3])
def test_a_loaded_state_goes_on_as_the_saved_one(steps: int) -> None:
    model, other = llama(), llama()
    first = MuonAndAdamW(AdamW(model.parameters(), lr=1e-2, fused=True), model)
    tokens = torch.arange(40).reshape(2, 20)

    def step(model: Any, optimizer: torch.optim.Optimizer) -> None:
        model(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    for _ in range(steps):
        step(model, first)
    other.load_state_dict(model.state_dict())
    again = MuonAndAdamW(AdamW(other.parameters(), lr=1e-2, fused=True), other)
    again.load_state_dict(deepcopy(first.state_dict()))
    step(model, first)
    step(other, again)
    assert all(torch.equal(*pair) for pair in zip(model.parameters(), other.parameters(), strict=True))


WEIGHTS = [0.25, 3.0, 1.0, 0.1, 2.0, 1.5, 1.0, 0.7, 5.0, 1.0]
PAIRS = 4
TWO = (Ranks(rank=0, world=2), Ranks(rank=1, world=2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_fake_base(tmp_path_factory.mktemp("base"))


def pairs(folder: Path, weights: list[float] | None = None) -> Pack:
    """Four pairs of answers of four tokens to prompts of three."""
    folder.mkdir()
    lengths = np.full(2 * PAIRS, 7)
    spool = made_spool(
        folder / "spool",
        lengths,
        input_ids=np.random.default_rng(2).integers(6, VOCABULARY, lengths.sum()).astype(np.int32),
        learned=np.tile(np.arange(7) >= 3, 2 * PAIRS),
        example=np.repeat(np.arange(PAIRS), 2),
        weights=weights,
    )
    PackWriter(folder, "train", "preference", 7).write(
        spool, one_by_one(lengths.reshape(-1, 2), max_length=7, seed=1, bucket=4)
    )
    return Pack.open(folder, "train")


def test_the_loss_of_a_step_is_the_weighted_mean_over_its_tokens(folder: Path, tmp_path: Path) -> None:
    model, pack = moved(load(folder)), write_pack(tmp_path / "pack", "train", len(WEIGHTS), weights=WEIGHTS)
    losses, weights = [], []
    for window in range(len(pack)):
        batch = micro_batch(pack, [window])
        losses.append(token_losses(model, batch).detach().double())
        learned = np.diff(np.searchsorted(batch.sources.numpy(), batch.boundaries.numpy()))
        examples = pack.read([window]).examples
        weights.append(torch.from_numpy(np.repeat(np.array(WEIGHTS)[examples], learned)))
    expected = float((torch.cat(losses) * torch.cat(weights)).sum() / torch.cat(weights).sum())
    whole = whole_of_pack(pack)
    assert whole.learned == pytest.approx(float(torch.cat(weights).sum()), rel=1e-12)
    for size in (1, len(pack)):
        spans = [range(first, min(first + size, len(pack))) for first in range(0, len(pack), size)]
        found = sum(
            float(made("sft").part(model, micro_batch(pack, span), whole, None).loss.detach()) for span in spans
        )
        assert found == pytest.approx(expected, rel=1e-5)
    assert expected != pytest.approx(float(torch.cat(losses).mean()), rel=1e-3)
    device = torch.device("cpu")
    assert validation_loss(model, made("sft"), pack, device, 2, lambda: None) == pytest.approx(expected, rel=1e-5)


def test_all_ranks_divide_by_the_same_sum(tmp_path: Path) -> None:
    pack = write_pack(tmp_path / "weighed", "train", len(WEIGHTS), weights=WEIGHTS)
    order = Order(windows=len(pack), global_batch=len(pack), epochs=1, seed=3)
    ((alone,), *of_two) = (StepReader(pack, order, 1, ranks) for ranks in (Ranks(), *TWO))
    for (read,) in of_two:
        assert read["read"].whole.learned == alone["read"].whole.learned
        assert read["read"].tokens == alone["read"].tokens


@pytest.mark.parametrize("method", [name for name, each in METHODS.items() if each.form.name == "preference"])
def test_pairs_count_by_their_weight(method: str, folder: Path, tmp_path: Path) -> None:
    chosen = [0.5, 2.0, 1.0, 4.0]
    model, objective = moved(load(folder)), made(method)
    pack, plain = pairs(tmp_path / "weighed", chosen), pairs(tmp_path / "plain")
    reference = References(plain, score(load(folder), plain)) if METHODS[method].compares else References(plain, None)

    def step(pack: Pack, windows: range) -> dict[str, float]:
        whole = whole_of_pack(pack)
        part = objective.part(model, micro_batch(pack, windows), whole, reference.of(windows))
        return {"loss": float(part.loss.detach()), **{name: float(value) for name, value in part.figures.items()}}

    each = [step(plain, range(window, window + 1)) for window in range(PAIRS)]
    weights = [chosen[int(plain.read([window]).examples[0])] for window in range(PAIRS)]
    for name, value in step(pack, range(PAIRS)).items():
        expected = sum(weight * one[name] * PAIRS for weight, one in zip(weights, each, strict=True)) / sum(weights)
        assert value == pytest.approx(expected, rel=1e-4, abs=1e-6), name


def weighed_bench(root: Path, weights: dict[str, list[float]], **settings: Any) -> Any:
    bench = make_bench(root, documents=len(WEIGHTS), **settings)
    for split, each in weights.items():
        write_pack(root / "weighed", split, len(each), seed=int(split == "validation"), weights=each)
    bench.inputs["pack"] = publish(bench.store, root / "weighed", "token_pack", "acme")
    return bench


@pytest.mark.training
def test_weights_of_1_change_no_bit_and_other_weights_are_learned_and_in_the_ledger(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"epochs": 1, "global_batch_size": 2, "micro_batch_size": 1}
    plain = train(make_bench(tmp_path / "plain", documents=len(WEIGHTS), **settings).context())
    ones = {"train": [1.0] * len(WEIGHTS), "validation": [1.0] * 12}
    same = train(weighed_bench(tmp_path / "ones", ones, **settings).context())
    theirs, mine = content(plain), content(same)
    assert mine.pop("ledger.jsonl") != theirs.pop("ledger.jsonl")
    assert mine == theirs
    assert rows(same, "loss") == rows(plain, "loss")
    assert same.facts["validation_loss"] == plain.facts["validation_loss"]
    bench = weighed_bench(tmp_path / "others", {"train": WEIGHTS, "validation": [2.0, 0.5] * 6}, **settings)
    other = train(bench.context())
    assert content(other)["final/adapter_model.safetensors"] != theirs["final/adapter_model.safetensors"]
    assert b'"weights":[' in content(other)["ledger.jsonl"]
