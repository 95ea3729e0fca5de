"""Every method with every variant, from a pack to weights that know more than their base; and settings beside them."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

# PEFT looks once, when it is imported, for bitsandbytes, which a worker that needs none hides: so it comes first.
from peft import PeftModel
from safetensors.torch import load_file
from torch.autograd.graph import save_on_cpu
from transformers import AutoModelForCausalLM
from transformers.models.llama.modeling_llama import LlamaMLP

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.workers.model_size.memory import LOGITS_AT_ONCE
from ft_assets.workers.packs.isolation import output_layer
from ft_assets.workers.training.methods.objective import WrongReference
from ft_assets.workers.training.reference import read_reference
from ft_assets.workers.training.train import train
from ft_assets.workers.training.trainer import Pace, overflowed
from ft_assets.workers.training.variants import VARIANTS
from ft_resources.worker_context import WorkResult
from tests.fake_base import make_fake_base
from tests.workers.training.conftest import Bench, content, make_bench, publish, step_rows
from tests.workers.training.test_train import at_step, kill
from tests.workers.training.variety import make_variety, scored

pytestmark = pytest.mark.training

# Elsewhere 4 bits are only tried in `make test-long`.
QUANTISED = ("sft", "dpo")
FIGURES = {"rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins"}


def steps_of(result: WorkResult) -> list[dict[str, Any]]:
    return [row for row in step_rows(result) if "loss" in row]


def load(bench: Bench, result: WorkResult, folder: Path) -> Any:
    """The run's result as users load it: an adapter on the uploaded base."""
    final = result.folder / "final"
    if not VARIANTS[bench.params["variant"]].adapters:
        return AutoModelForCausalLM.from_pretrained(final, dtype=torch.float32)
    base = AutoModelForCausalLM.from_pretrained(make_fake_base(folder), dtype=torch.float32)
    return PeftModel.from_pretrained(base, str(final))


def logits_of(model: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(input_ids=torch.arange(40, 52)[None]).logits[0]


@pytest.mark.parametrize(
    ("method", "variant"),
    [
        pytest.param(method, variant, marks=pytest.mark.long if variant == "qlora" and method not in QUANTISED else ())
        for method in METHODS
        for variant in VARIANTS
    ],
)
def test_every_method_and_variant_leaves_weights_that_load_and_answer_and_learned(
    method: str, variant: str, tmp_path: Path
) -> None:
    bench = make_variety(tmp_path, method, variant)
    result = train(bench.context())
    steps = steps_of(result)
    assert steps[-1]["loss"] < steps[0]["loss"] - 0.01
    assert math.isfinite(result.facts["validation_loss"][-1][1])
    if METHODS[method].form.name == "preference":
        assert steps[0].keys() >= FIGURES
        assert steps[-1]["rewards/margins"] > steps[0]["rewards/margins"]
    if METHODS[method].compares:
        first = 0.5 if method == "kto" else math.log(2)
        assert steps[0]["loss"] == pytest.approx(first, abs=1e-4)
    if variant == "qlora":
        adapter = load_file(result.folder / "final" / "adapter_model.safetensors")
        assert {tensor.dtype for tensor in adapter.values()} == {torch.float32}
    model = load(bench, result, tmp_path / "plain")
    answer = model.generate(input_ids=torch.arange(40, 46)[None], max_new_tokens=4, do_sample=False)
    assert answer.shape[1] > 6
    plain = AutoModelForCausalLM.from_pretrained(make_fake_base(tmp_path / "other"), dtype=torch.float32)
    assert torch.isfinite(logits_of(model)).all()
    assert (logits_of(model) - logits_of(plain)).abs().max() > 1e-2


def test_a_base_in_four_bits_is_another_model_than_the_base(tmp_path: Path) -> None:
    columns = []
    for variant in ("lora", "qlora"):
        bench = make_variety(tmp_path / variant, "dpo", variant)
        artifact = bench.inputs["reference_logps"]
        columns.append(read_reference(artifact, tmp_path / f"cache-{variant}", "train", bench.pack))
    difference = np.abs(columns[0] - columns[1])
    assert (difference > 0).all()
    assert difference.max() < 1.0


def test_a_step_without_its_reference_is_not_taken(tmp_path: Path) -> None:
    """With the reference of another model, the loss shows it before anything is learned."""
    bench = make_variety(tmp_path / "one", "dpo", "lora")
    other = make_variety(tmp_path / "other", "dpo", "lora")
    base = make_fake_base(tmp_path / "stranger", seed=7)
    other.inputs["base"] = publish(other.store, base, "base_model", "shared", {"source": "hub:acme/tiny"})
    stranger = scored(other)
    bench.inputs["reference_logps"] = publish(
        bench.store, stranger.folder(tmp_path / "fetched"), "reference_logps", "acme"
    )
    context = bench.context()
    at_step(context, 1, kill)
    with pytest.raises(WrongReference, match="before anything was learned"):
        train(context)
    assert "final" not in {name.split("/")[0] for name in content(WorkResult(folder=context.output, facts={}))}


@pytest.mark.parametrize("method", ["dpo", "kto"])
def test_a_base_with_dropout_of_its_own_trains_beside_its_reference(method: str, tmp_path: Path) -> None:
    """As Seed-OSS and GPT-2 have it: the first step is not what the reference says, though nothing was learned."""
    bench = make_variety(tmp_path, method, "lora")
    folder = make_fake_base(tmp_path / "dropping")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "attention_dropout": 0.2}))
    bench.inputs["base"] = publish(bench.store, folder, "base_model", "shared", {"source": "hub:acme/dropping"})
    bench.inputs["reference_logps"] = scored(bench)
    steps = steps_of(train(bench.context()))
    assert steps[0]["loss"] != pytest.approx(math.log(2) if method == "dpo" else 0.5, abs=1e-3)
    assert steps[-1]["loss"] < steps[0]["loss"]


def test_length_normalised_dpo_trains(tmp_path: Path) -> None:
    result = train(make_variety(tmp_path, "dpo", "full", loss="sigmoid_norm").context())
    steps = steps_of(result)
    assert steps[0]["loss"] == pytest.approx(math.log(2), abs=1e-4)
    assert steps[-1]["loss"] < steps[0]["loss"]


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
    [("lora", LOGITS_AT_ONCE), ("full", 1 << 12), pytest.param("full", LOGITS_AT_ONCE, marks=pytest.mark.long)],
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
