"""Weights in bfloat16: the effect of stochastic rounding, and trainings that are exact over stops."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from ft_assets.workers.training import rounding
from ft_assets.workers.training.rounding import Bits, RoundedAdamW, round_at_random, round_in_8_bits
from ft_assets.workers.training.train import train
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
