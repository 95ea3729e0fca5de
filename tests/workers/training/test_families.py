"""Every family of causal models learns, packed or apart, what a plain loop does.

The ten and the corners are trained at each change, and every sixth of the others takes a step; in ``make test-long``
all do.
"""

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
from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.training import trainer
from ft_assets.workers.training.model import Origin, load_base, save_final, with_adapters
from ft_assets.workers.training.train import train
from ft_resources.worker_context import WorkResult
from tests.workers.packs.corners import corners
from tests.workers.training.conftest import Bench, step_rows
from tests.workers.training.families import FAMILIES, family_bench
from tests.workers.training.placed import documents, losses_alone
from tests.workers.training.test_train import assert_same, run_killed_at

pytestmark = pytest.mark.training

# A step is two micro-batches of a window, of three or four documents.
STEPS = {"global_batch_size": 2, "micro_batch_size": 1}
# Beside the ten: each has a mechanism that those lack.
CORNERS = {
    *TEN,
    *("gpt2", "bloom", "gemma3n_text", "llama4_text", "deepseek_v32", "mamba2", "falcon_h1", "gemma3", "mllama"),
}
TRAINED = corners(FAMILIES, CORNERS)
# In full, experts, states and the other part of a composite have weights that no adapter has.
IN_FULL = {*TEN, "mamba2", "gemma3", "deepseek_v32"}
# One with full attention alone, one whose layers take turns, and one that runs apart with a state.
RESUMED = {"llama", "gemma3_text", "qwen3_next"}
OTHERS = [kind for kind in FAMILIES if kind not in CORNERS]
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


def losses(result: WorkResult) -> list[float]:
    return [row["loss"] for row in step_rows(result) if "loss" in row]


def rates(result: WorkResult) -> list[float]:
    return [row["learning_rate"] for row in step_rows(result) if "loss" in row]


def test_the_catalogue_lists_the_families_that_are_tried() -> None:
    assert set(CATALOGUE) == set(FAMILIES)


@pytest.mark.parametrize("kind", corners(FAMILIES, IN_FULL))
def test_a_family_trains_in_full_with_the_losses_of_a_plain_loop(kind: str, tmp_path: Path) -> None:
    bench = family_bench(tmp_path / "quiet", FAMILIES[kind], variant="full", **STEPS)
    result = train(bench.context())
    assert result.facts["isolation"]["mode"] == FAMILIES[kind].mode
    assert result.facts["isolation"]["passed"]
    model = plain(bench.inputs["base"].folder(tmp_path / "plain"), kind)
    assert losses(result) == pytest.approx(plain_losses(bench, model, rates(result)), rel=1e-5)
    if kind in RESUMED:
        assert_same(result, resumed(tmp_path, kind, variant="full"))


def resumed(folder: Path, kind: str, **settings: Any) -> WorkResult:
    """The training of a family after a kill."""
    bench = family_bench(folder / "killed", FAMILIES[kind], **settings, **STEPS)
    run_killed_at(bench, 1, 2)
    return train(bench.context(2))


@pytest.mark.parametrize("kind", TRAINED)
def test_a_family_s_adapter_trains_with_the_losses_of_plain_peft_and_answers_in_plain_peft(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first: dict[str, torch.Tensor] = {}

    def watched(*args: Any) -> Any:
        model = with_adapters(*args)
        first.update({name: each.detach().clone() for name, each in model.named_parameters() if each.requires_grad})
        return model

    monkeypatch.setattr(trainer, "with_adapters", watched)
    bench = family_bench(tmp_path / "quiet", FAMILIES[kind], **STEPS)
    result = train(bench.context())
    base = plain(bench.inputs["base"].folder(tmp_path / "plain"), kind)
    model = PeftModel.from_pretrained(base, str(result.folder / "final"), is_trainable=True).eval()
    validation = Pack.open(bench.inputs["pack"].folder(tmp_path / "packs"), "validation")
    with torch.no_grad():
        loss = float(plain_loss(model, validation, range(len(validation))))
    assert result.facts["validation_loss"][-1][1] == pytest.approx(loss, rel=1e-5)
    assert math.isfinite(loss)
    answers(model)

    learning = {name: each for name, each in model.named_parameters() if each.requires_grad}
    assert learning.keys() == first.keys()
    for name, each in learning.items():
        each.data.copy_(first[name])
    assert losses(result) == pytest.approx(plain_losses(bench, model, rates(result)), rel=1e-5)


def answers(model: Any) -> None:
    assert model.generate(input_ids=torch.arange(40, 46)[None], max_new_tokens=3, do_sample=False).shape[1] > 6


@pytest.mark.long
@pytest.mark.parametrize("kind", FAMILIES)
def test_a_family_s_adapter_resumes_to_equal_bytes(kind: str, tmp_path: Path) -> None:
    bench = family_bench(tmp_path / "quiet", FAMILIES[kind], **STEPS)
    assert_same(train(bench.context()), resumed(tmp_path, kind))


@pytest.mark.parametrize("kind", corners(OTHERS, OTHERS[::6]))
def test_a_family_s_adapter_has_the_loss_and_gradients_of_plain_peft_and_answers_in_plain_peft(
    kind: str, tmp_path: Path
) -> None:
    base, batch = tmp_path / "base", documents()
    FAMILIES[kind].model().save_pretrained(base)
    choice = choose(base)
    assert choice.mode == FAMILIES[kind].mode
    model = load_base(base, TrainingSettings(precision="fp32"), full=False, choice=choice)
    model = with_adapters(model, LoraSettings(rank=4, alpha=8)).train()
    for name, weight in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(weight, std=0.02)
    loss = token_losses(model, batch).mean()
    loss.backward()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}
    save_final(model, tmp_path / "final", Origin(source=f"hub:acme/{kind}", revision=None, dtype="float32"), full=False)

    model = PeftModel.from_pretrained(plain(base, kind), str(tmp_path / "final"), is_trainable=True).train()
    expected = losses_alone(model, batch).mean()
    expected.backward()
    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    plainly = {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}
    assert plainly.keys() == gradients.keys()
    for name, gradient in plainly.items():
        # An expert that no token chose has none.
        assert (gradient is None) == (gradients[name] is None), name
        if gradient is not None:
            assert torch.linalg.norm(gradients[name] - gradient) <= 1e-3 * torch.linalg.norm(gradient) + 1e-7, name
    answers(model.eval())


@pytest.mark.parametrize("kind", corners(TEN, ("llama", "mixtral", "deepseek_v3", "qwen3_next")))
def test_a_family_takes_a_step_on_a_base_in_four_bits(kind: str, tmp_path: Path) -> None:
    bench = family_bench(tmp_path, FAMILIES[kind], variant="qlora", **STEPS)
    bench.params["training"]["max_steps"] = 1
    (loss,) = losses(train(bench.context()))
    with torch.no_grad():
        model = plain(bench.inputs["base"].folder(tmp_path / "plain"), kind)
        unrounded = float(plain_loss(model, bench.pack, next(iter(bench.order.read())).windows))
    assert loss != pytest.approx(unrounded, rel=1e-5)
    assert loss == pytest.approx(unrounded, rel=2e-2)
