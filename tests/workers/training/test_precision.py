"""Weights in bfloat16 with stochastic rounding, and layers in 8-bit floats."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from ft_assets.settings.recipe.training import LoraSettings
from ft_assets.workers.model_size.float8 import can_be_float8, pays_in_float8
from ft_assets.workers.training import float8, kernels, rounding
from ft_assets.workers.training.float8 import multiply_in_float8
from ft_assets.workers.training.model import with_adapters
from ft_assets.workers.training.rounding import Bits, RoundedAdamW, round_at_random, round_in_8_bits
from ft_assets.workers.training.train import train
from ft_resources.errors import BadRecipe, UserError
from ft_resources.worker_context import Preempted
from tests.workers.training.conftest import content, make_bench
from tests.workers.training.test_ranks import SETTINGS, at_step, has_saved, kill_rank, rows, two_ranks
from tests.workers.training.test_train import run_stopped_at

BF16: dict[str, Any] = {"variant": "full", "precision": "bf16", "weights": "bfloat16"}
# A hundredth of the distance of bfloat16's numbers above 1.
RATE, STEPS = 2**-7 / 100, 50


def updated(dtype: torch.dtype, kind: str) -> torch.nn.Parameter:
    """65,536 ones after updates, each as large as the rate."""
    weight = torch.nn.Parameter(torch.ones(256, 256, dtype=dtype))
    optimizer: Any = torch.optim.AdamW([weight], lr=RATE, weight_decay=0.0, fused=True)
    if kind == "rounded":
        optimizer = RoundedAdamW(optimizer, Bits(17))
    if kind == "rounded in 8 bits":
        from bitsandbytes.optim import AdamW8bit

        optimizer = AdamW8bit([weight], lr=RATE, weight_decay=0.0)
        round_in_8_bits(optimizer, Bits(17))
    for _ in range(STEPS):
        weight.grad = torch.ones_like(weight)
        optimizer.step()
    return weight


@pytest.mark.parametrize("kind", ["rounded", "rounded in 8 bits"])
def test_the_mean_of_updates_below_bfloat16s_distance_is_float32s_where_the_nearest_number_stands_still(
    kind: str,
) -> None:
    exact, near = updated(torch.float32, "").mean().item(), updated(torch.bfloat16, "")
    assert near.min() == near.max() == 1.0
    found = updated(torch.bfloat16, kind)
    assert found.dtype == torch.bfloat16
    # Below 1 the distance is 2^-8, and the mean of 65,536 weights has a 256th of one weight's error.
    assert found.float().mean().item() == pytest.approx(exact, abs=5 * 2**-8 / 256)


def test_a_number_of_bfloat16_is_left_alone_and_others_go_to_a_neighbour_as_often_as_they_are_near() -> None:
    held = torch.randn(10_000).bfloat16()
    held[:4] = torch.tensor([0.0, -0.0, float("inf"), float("-inf")])
    assert torch.equal(round_at_random(held.float(), Bits(1).of(1, 0, held.device)), held)
    quarter = torch.full((100_000,), -1.0 - 2**-7 / 4)
    found = round_at_random(quarter, Bits(1).of(1, 0, quarter.device))
    assert set(found.tolist()) == {-1.0, -1.0 - 2**-7}
    assert (found != -1.0).float().mean().item() == pytest.approx(0.25, abs=0.01)


def test_bits_differ_by_step_place_and_shard_and_are_the_same_again() -> None:
    def drawn(*of: int) -> list[int]:
        seed, part, step, place = of
        bits = Bits(seed, part).of(step, place, torch.device("cpu"))
        return torch.randint(0, 1 << 16, (8,), generator=bits).tolist()

    of = [(17, 0, 1, 0), (18, 0, 1, 0), (17, 1, 1, 0), (17, 0, 2, 0), (17, 0, 1, 1)]
    assert [drawn(*each) for each in of] == [drawn(*each) for each in of]
    assert len({tuple(drawn(*each)) for each in of}) == len(of)


@pytest.mark.parametrize("kind", ["rounded", "rounded in 8 bits"])
def test_a_large_weight_is_updated_in_pieces_to_the_same_numbers(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    whole = updated(torch.bfloat16, kind)
    monkeypatch.setattr(rounding, "_AT_ONCE", 3 * 4096)
    assert torch.equal(updated(torch.bfloat16, kind), whole)


@pytest.mark.training
@pytest.mark.parametrize("optimizer", ["adamw", "adamw_8bit"])
def test_weights_are_saved_in_bfloat16_and_moments_never_as_the_second_one_would_stand_still(
    tmp_path: Path, optimizer: str
) -> None:
    bench = make_bench(tmp_path, documents=20, optimizer=optimizer, **BF16)
    run_stopped_at(bench, 1, 2)
    saves = f"{bench.spec().attempt_path}/saves"
    place = f"{saves}/{bench.store.folders(saves)[-1]}"
    for name in ("model", "optimizer"):
        bench.store.download(f"{place}/{name}.safetensors", tmp_path / name)
    assert {value.dtype for value in load_file(tmp_path / "model").values()} == {torch.bfloat16}
    assert {value.dtype for value in load_file(tmp_path / "optimizer").values()} <= {torch.float32, torch.uint8}


@pytest.mark.training
def test_weights_in_bfloat16_learn_about_as_much_as_those_in_float32(tmp_path: Path) -> None:
    losses = [
        train(make_bench(tmp_path / weights, documents=40, **BF16 | {"weights": weights}).context()).facts["train_loss"]
        for weights in ("float32", "bfloat16")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


@pytest.mark.training
@pytest.mark.parametrize(
    ("sharding", "optimizer"),
    [
        ("none", "adamw_8bit"),
        ("fsdp", "adamw"),
        # The bits of both are tried above, and the layout by the first.
        pytest.param("none", "adamw", marks=pytest.mark.long),
    ],
)
def test_two_ranks_round_alike_what_both_hold_learn_what_one_does_and_go_on_to_the_same_bytes(
    tmp_path: Path, plant: Callable[..., None], sharding: str, optimizer: str
) -> None:
    plant("weights_must_agree" if sharding == "none" else "")
    settings = {**SETTINGS, **BF16, "optimizer": optimizer, "epochs": 4}
    alone = train(make_bench(tmp_path / "alone", **settings).context())
    quiet = two_ranks(tmp_path / "quiet", **settings)
    quiet.runtime["sharding"] = sharding
    both = train(quiet.context())
    assert rows(both, "loss") == pytest.approx(rows(alone, "loss"), rel=0.02)
    bench = two_ranks(tmp_path / "killed", **settings)
    bench.runtime["sharding"] = sharding
    context = bench.context(1)
    at_step(context, 4, partial(kill_rank, context, 1), partial(has_saved, context))
    with pytest.raises(Preempted):
        train(context)
    resumed = train(bench.context(2))
    assert resumed.facts["resumed"]
    assert content(resumed) == content(both)


torchao_float8 = pytest.importorskip("torchao.float8", reason="torchao is not installed: the extra float8")

SIZES: dict[str, Any] = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 128,
    "vocab_size": 100,
}
TOKENS = torch.arange(37).reshape(1, 37) * 7 % 100


def made(**sizes: Any) -> Any:
    torch.manual_seed(0)
    return LlamaForCausalLM(LlamaConfig(**{**SIZES, **sizes}))


def stepped(model: Any) -> tuple[float, dict[str, torch.Tensor]]:
    """The loss of a forward pass under autocast, and the gradients."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(TOKENS, labels=TOKENS).loss
    loss.backward()
    return loss.item(), {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}


@pytest.mark.parametrize("lora", [False, True], ids=["full", "lora"])
def test_loss_and_gradients_are_those_of_bf16_up_to_rounding_to_four_bits(lora: bool) -> None:
    """A number of e4m3 is rounded by at most a sixteenth; sums of many are off by less."""

    def variant(model: Any) -> Any:
        if not lora:
            return model
        adapted = with_adapters(model, LoraSettings(rank=4, alpha=8))
        for name, weight in adapted.named_parameters():
            if "lora_B" in name:
                torch.nn.init.normal_(weight, std=0.02)
        return adapted

    loss, gradients = stepped(variant(made()))
    fast = made()
    assert multiply_in_float8(fast, emulated=True) == 14
    found, others = stepped(variant(fast))
    assert found != loss
    assert found == pytest.approx(loss, rel=2e-3)
    assert others.keys() == gradients.keys()
    for name, gradient in gradients.items():
        assert torch.linalg.norm(others[name] - gradient) < 0.15 * torch.linalg.norm(gradient), name


def test_what_is_computed_is_torchaos_recipe_by_row_and_weights_keep_their_names() -> None:
    config = replace(torchao_float8.Float8LinearConfig.from_recipe_name("rowwise"), emulate=True, pad_inner_dim=True)
    theirs, ours = made(), made()
    names = list(ours.state_dict())
    torchao_float8.convert_to_float8_training(
        theirs, config=config, module_filter_fn=lambda module, name: name != "lm_head"
    )
    multiply_in_float8(ours, emulated=True)
    assert list(ours.state_dict()) == names
    loss, gradients = stepped(theirs)
    found, others = stepped(ours)
    assert found == loss
    assert all(torch.equal(others[name], gradients[name]) for name in gradients)
    assert type(ours.lm_head) is torch.nn.Linear


def test_a_token_is_rounded_without_regard_to_the_others_of_its_row() -> None:
    """With one scale for all rows, a document would change another one of its pack."""
    layer = torch.nn.Linear(64, 32, bias=False)
    fast = float8.with_scales_by_row(layer, emulated=True)
    rows = torch.randn(5, 64)
    larger = torch.cat([rows[:2], rows[2:] * 1000])
    assert torch.equal(fast(rows)[:2], fast(larger)[:2])


@pytest.mark.training
@pytest.mark.parametrize("variant", ["full", "lora"])
def test_a_training_learns_as_in_bf16_and_leaves_plain_weights(tmp_path: Path, variant: str) -> None:
    half = train(make_bench(tmp_path / "bf16", variant=variant, documents=40, precision="bf16").context())
    whole = train(make_bench(tmp_path / "whole", variant=variant, documents=40, precision="fp8").context())
    assert content(whole) != content(half)
    assert whole.facts["train_loss"] == pytest.approx(half.facts["train_loss"], rel=0.02)
    shapes = [
        {name: (value.shape, value.dtype) for path in result.folder.glob("final/*.safetensors")
         for name, value in load_file(path).items()}
        for result in (whole, half)
    ]  # fmt: skip
    assert shapes[0] == shapes[1]


def test_a_base_of_matrices_that_do_not_pay_is_refused_where_it_is_not_emulated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(float8, "multiplies_float8", lambda device: True)
    with pytest.raises(BadRecipe, match="large enough"):
        multiply_in_float8(made(), emulated=False)
    with pytest.raises(BadRecipe, match="large enough"):
        multiply_in_float8(made(hidden_size=40, intermediate_size=72), emulated=True)


def test_a_gpu_without_8_bit_floats_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(float8, "multiplies_float8", lambda device: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "A100")
    with pytest.raises(UserError, match="A100 does not multiply"):
        multiply_in_float8(made(), emulated=False)


@pytest.mark.parametrize("sizes", [(4096, 4096), (4096, 14336), (14336, 4096), (4096, 1024), (1536, 8960), (64, 128)])
def test_a_matrix_pays_where_torchao_says_so(sizes: tuple[int, int]) -> None:
    inputs, outputs = sizes
    takes = torchao_float8._auto_filter_for_recipe("rowwise", filter_fqns=[])
    with torch.device("meta"):
        assert pays_in_float8(inputs, outputs) == takes(torch.nn.Linear(inputs, outputs), "layer")
    assert can_be_float8(inputs, outputs)


def test_ft_kernels_tries_a_product() -> None:
    kernels._eight_bit_products(torch.device("cpu"))
