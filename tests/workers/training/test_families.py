"""Every family of causal models trains, packed or apart, with the losses of a plain loop."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy

# PEFT looks once, when it is imported, for bitsandbytes, which a worker that needs none hides: so it comes first.
from peft import PeftModel  # isort: skip
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_assets.settings.catalogue.families import FAMILIES as CATALOGUE
from ft_assets.settings.catalogue.families import TEN
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.training import trainer
from ft_assets.workers.training.train import train
from ft_resources.worker_context import WorkResult
from tests.workers.training.conftest import Bench
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.test_train import assert_same, rows, run_killed_at

pytestmark = pytest.mark.training

# A step is two micro-batches of a window, of three or four documents.
STEPS = {"global_batch_size": 2, "micro_batch_size": 1}
# SDPA leaves softcaps out.
EAGER = {"gemma2"}


def plain(folder: Path, kind: str) -> Any:
    """The base as users load it."""
    attention = {"attn_implementation": "eager"} if kind in EAGER else {}
    whole: Any = AutoModelForImageTextToText if kind in COMPOSITES else AutoModelForCausalLM
    return whole.from_pretrained(folder, dtype=torch.float32, **attention)


def plain_loss(model: Any, pack: Pack, windows: Any) -> torch.Tensor:
    """The mean loss of the learned tokens, document by document."""
    read = pack.read(windows)
    total, learned, start = torch.zeros(()), 0, 0
    for length in read.document_lengths.tolist():
        ids = torch.from_numpy(read.input_ids[start : start + length].astype("int64"))[None]
        taught = torch.from_numpy(read.learned[start : start + length].copy())[1:]
        logits = model(input_ids=ids).logits[0, :-1].float()
        total = total + cross_entropy(logits[taught], ids[0, 1:][taught], reduction="sum")
        learned += int(taught.sum())
        start += length
    return total / learned


def plain_losses(bench: Bench, model: Any, rates: list[float]) -> list[float]:
    """Steps at these rates by a plain loop over what is trainable in ``model``."""
    training, found = bench.params["training"], []
    learning = [weight for weight in model.train().parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(learning, lr=0.0, weight_decay=training["weight_decay"])
    for step, rate in zip(bench.order.read(), rates, strict=True):
        optimizer.param_groups[0]["lr"] = rate
        loss = plain_loss(model, bench.pack, step.windows)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learning, training["max_grad_norm"])
        optimizer.step()
        optimizer.zero_grad()
        found.append(loss.item())
    return found


def step_rows(result: WorkResult) -> list[dict[str, Any]]:
    lines = (result.folder / "report" / "steps.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if "loss" in row]


def losses(result: WorkResult) -> list[float]:
    return [row["loss"] for row in step_rows(result)]


def rates(result: WorkResult) -> list[float]:
    return [row["learning_rate"] for row in step_rows(result)]


def test_the_catalogue_lists_the_families_that_are_tried() -> None:
    assert set(CATALOGUE) == set(FAMILIES)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_trains_in_full_with_the_losses_of_a_plain_loop(kind: str, tmp_path: Path) -> None:
    bench = family_bench(tmp_path / "quiet", FAMILIES[kind], variant="full", **STEPS)
    result = train(bench.context())
    assert result.facts["isolation"]["mode"] == FAMILIES[kind].mode
    assert result.facts["isolation"]["passed"]
    model = plain(bench.inputs["base"].folder(tmp_path / "plain"), kind)
    assert losses(result) == pytest.approx(plain_losses(bench, model, rates(result)), rel=1e-5)
    if kind in TEN:
        killed = family_bench(tmp_path / "killed", FAMILIES[kind], variant="full", **STEPS)
        run_killed_at(killed, 1, 2)
        resumed = train(killed.context(2))
        assert_same(result, resumed)
        assert losses(result) == losses(resumed)


@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_s_adapter_trains_with_the_losses_of_plain_peft_resumes_to_equal_bytes_and_answers_in_plain_peft(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: dict[str, torch.Tensor] = {}

    def watched(*args: Any) -> Any:
        model = with_adapters(*args)
        first.update({name: each.detach().clone() for name, each in model.named_parameters() if each.requires_grad})
        return model

    with_adapters = trainer.with_adapters
    quiet = family_bench(tmp_path / "quiet", FAMILIES[kind], **STEPS)
    with monkeypatch.context() as patched:
        patched.setattr(trainer, "with_adapters", watched)
        result = train(quiet.context())
    killed = family_bench(tmp_path / "killed", FAMILIES[kind], **STEPS)
    run_killed_at(killed, 1, 2)
    resumed = train(killed.context(2))
    assert_same(result, resumed)
    assert rows(result, "loss") == rows(resumed, "loss")

    base = plain(quiet.inputs["base"].folder(tmp_path / "plain"), kind)
    model = PeftModel.from_pretrained(base, str(result.folder / "final"), is_trainable=True).eval()
    validation = Pack.open(quiet.inputs["pack"].folder(tmp_path / "packs"), "validation")
    with torch.no_grad():
        loss = float(plain_loss(model, validation, range(len(validation))))
    assert result.facts["validation_loss"][-1][1] == pytest.approx(loss, rel=1e-5)
    assert math.isfinite(loss)
    answer = model.generate(input_ids=torch.arange(40, 46)[None], max_new_tokens=3, do_sample=False)
    assert answer.shape[1] > 6

    learning = {name: each for name, each in model.named_parameters() if each.requires_grad}
    assert learning.keys() == first.keys()
    for name, each in learning.items():
        each.data.copy_(first[name])
    assert losses(result) == pytest.approx(plain_losses(quiet, model, rates(result)), rel=1e-5)


@pytest.mark.parametrize("kind", TEN)
def test_a_family_takes_a_step_on_a_base_in_four_bits(kind: str, tmp_path: Path) -> None:
    bench = family_bench(tmp_path, FAMILIES[kind], variant="qlora", **STEPS)
    bench.params["training"]["max_steps"] = 1
    (loss,) = losses(train(bench.context()))
    with torch.no_grad():
        model = plain(bench.inputs["base"].folder(tmp_path / "plain"), kind)
        unrounded = float(plain_loss(model, bench.pack, next(iter(bench.order.read())).windows))
    assert loss != pytest.approx(unrounded, rel=1e-5)
    assert loss == pytest.approx(unrounded, rel=2e-2)
