"""Every method with every variant, from a pack to weights that load, answer, and know more than their base."""

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
from transformers import AutoModelForCausalLM

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.workers.training.methods.objective import WrongReference
from ft_assets.workers.training.reference import read_reference
from ft_assets.workers.training.train import train
from ft_assets.workers.training.variants import VARIANTS
from ft_resources.worker_context import WorkResult
from tests.fake_base import make_fake_base
from tests.workers.training.conftest import Bench, content, publish, step_rows
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
