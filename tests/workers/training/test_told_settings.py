"""The trainer follows settings of the configuration that no other test covers."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.autograd.graph import save_on_cpu
from transformers.models.llama.modeling_llama import LlamaMLP

from ft_assets.workers.model_size.memory import LOGITS_AT_ONCE
from ft_assets.workers.packs.isolation import output_layer
from ft_assets.workers.training.train import train
from ft_assets.workers.training.trainer import Pace, overflowed
from tests.workers.training.conftest import content, make_bench

pytestmark = pytest.mark.training


@pytest.mark.parametrize("variant", ["lora", "full"])
def test_recomputation_happens_and_changes_no_byte_also_where_inputs_are_offloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    """With dropout, whose draws must be repeated. Without a GPU there is no pinned memory, so the copies are plain."""
    forwards, copied = list[int](), list[torch.Size]()
    forward = LlamaMLP.forward

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        forwards.append(1)
        return forward(self, *args, **kwargs)

    def copying(*, pin_memory: bool, device_type: str) -> Any:
        hooks = save_on_cpu(pin_memory=False)

        def pack(tensor: torch.Tensor) -> Any:
            copied.append(tensor.shape)
            return hooks.pack_hook(tensor)

        return torch.autograd.graph.saved_tensors_hooks(pack, hooks.unpack_hook)

    monkeypatch.setattr(LlamaMLP, "forward", counted)
    monkeypatch.setattr("transformers.modeling_utils.save_on_cpu", copying)
    plain = make_bench(tmp_path / "plain", variant=variant, documents=20, epochs=1)
    quiet = content(train(plain.context()))
    once, again, offloaded = len(forwards), {}, {}
    for every, offload in ((1, False), (1, True), (2, True)):
        bench = make_bench(tmp_path / f"again-{every}-{offload}", variant=variant, documents=20, epochs=1)
        bench.runtime |= {"recompute": every, "offload": offload}
        assert bench.request.address == plain.request.address
        forwards.clear()
        copied.clear()
        assert content(train(bench.context())) == quiet
        again[every], offloaded[every] = len(forwards) - once, len(copied)
        # One for each layer that is recomputed, and each a row of tokens.
        assert {len(shape) for shape in copied} == ({3} if offload else set())
    # Every second of the base's layers.
    assert again[1] == 2 * again[2] > 0
    assert offloaded[1] == 2 * offloaded[2] > 0


@pytest.mark.parametrize(
    ("variant", "at_once"),
    [
        ("lora", LOGITS_AT_ONCE),
        ("full", 1 << 12),
        pytest.param("full", LOGITS_AT_ONCE, marks=pytest.mark.long),
    ],
)
def test_recomputation_in_bf16_keeps_no_copies_of_weights_and_changes_no_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variant: str, at_once: int
) -> None:
    """Also where the output layer's weight is used several times, for some tokens each."""
    monkeypatch.setattr(output_layer, "LOGITS_AT_ONCE", at_once)
    caching = set()
    forward = LlamaMLP.forward

    def watched(self: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_autocast_enabled("cpu"):
            caching.add(torch.is_autocast_cache_enabled())
        return forward(self, *args, **kwargs)

    monkeypatch.setattr(LlamaMLP, "forward", watched)
    found = []
    for recompute in (0, 1):
        bench = make_bench(tmp_path / str(recompute), variant=variant, documents=20, epochs=1, precision="bf16")
        bench.runtime["recompute"] = recompute
        caching.clear()
        found.append(content(train(bench.context())))
        assert caching == {recompute == 0}
    assert found[0] == found[1]


def test_optimizers_lead_to_other_weights(tmp_path: Path) -> None:
    names = ("adamw", "adamw_8bit", "adafactor", "muon")
    benches = [make_bench(tmp_path / name, variant="full", documents=20, epochs=1, optimizer=name) for name in names]
    assert len({str(bench.request.address) for bench in benches}) == len(names)
    found = [content(train(bench.context())) for bench in benches]
    assert all(one != other for one, other in itertools.combinations(found, 2))


def test_moments_in_8_bits_learn_about_as_much_as_those_in_32(tmp_path: Path) -> None:
    losses = [
        train(make_bench(tmp_path / name, variant="full", documents=40, optimizer=name).context()).facts["train_loss"]
        for name in ("adamw", "adamw_8bit")
    ]
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def scaler(scale: float) -> Any:
    return torch.amp.GradScaler("cpu", init_scale=scale, growth_interval=2)


def test_an_overflow_of_the_scale_is_no_divergence_until_there_is_no_scale_left() -> None:
    assert overflowed(scaler(65536.0), float("inf"))
    assert overflowed(scaler(65536.0), float("nan"))
    assert not overflowed(scaler(65536.0), 3.0)
    assert not overflowed(scaler(1.0), float("inf"))
    assert not overflowed(None, float("inf"))


def test_the_scale_is_halved_by_an_overflow_and_goes_on_from_a_save() -> None:
    weight = torch.nn.Parameter(torch.ones(1))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    schedule = torch.optim.lr_scheduler.ConstantLR(optimizer, factor=1.0)
    first = scaler(1024.0)

    def step(value: float) -> None:
        optimizer.zero_grad()
        first.scale(weight * value).backward()
        first.step(optimizer)
        first.update()

    step(float("inf"))
    assert weight.item() == 1.0
    step(1.0)
    saved = Pace(schedule, first).state_dict()
    again = scaler(1024.0)
    Pace(schedule, again).load_state_dict(saved)
    assert again.state_dict() == first.state_dict()
    assert again.get_scale() == 512.0


def test_without_a_scale_nothing_of_it_is_saved() -> None:
    schedule = torch.optim.lr_scheduler.ConstantLR(torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1))
    assert Pace(schedule, None).state_dict() == schedule.state_dict()
