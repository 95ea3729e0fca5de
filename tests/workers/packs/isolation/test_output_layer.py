"""Losses by parts of the tokens are those of all their logits, with the same gradients, and take a part's memory."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy

from ft_assets.workers.packs.isolation import output_layer
from ft_assets.workers.packs.isolation.choice import _try, choose
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.isolation.output_layer import losses_at
from ft_assets.workers.packs.isolation.told import Arithmetic
from tests.workers.packs.estimate.meter import Meter
from tests.workers.packs.isolation.test_apart import documents
from tests.workers.training.families import FAMILIES

# Their logits are scaled, divided, capped, multiplied or, by adapters, added to.
SHAPED = ["cohere", "granite", "gemma2", "falcon_h1", "gpt_oss"]
PART = 7


@pytest.fixture
def by_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output_layer, "LOGITS_AT_ONCE", PART * FAMILIES["llama"].config().vocab_size + 1)


def gradients(model: Any) -> dict[str, torch.Tensor]:
    found = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad(set_to_none=True)
    return found


@pytest.mark.parametrize("kind", SHAPED)
def test_losses_and_gradients_by_parts_are_those_of_all_logits(kind: str, by_parts: None) -> None:
    model = FAMILIES[kind].model().eval()
    ids = torch.randint(5, 280, (2, 23), generator=torch.Generator().manual_seed(0))
    places = torch.arange(45)[::2]
    targets = ids.flatten()[places + 1]
    logits = model(input_ids=ids).logits.flatten(0, 1)[places]
    expected = cross_entropy(logits, targets, reduction="none")
    weights = torch.linspace(-1, 2, len(places))
    (expected * weights).sum().backward()
    theirs = gradients(model)

    losses = losses_at(model, places, targets, input_ids=ids)
    (losses * weights).sum().backward()
    torch.testing.assert_close(losses, expected, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(gradients(model), theirs, rtol=1e-4, atol=1e-6)
    assert model(input_ids=ids).logits.shape == (2, 23, model.config.vocab_size)


def test_rounding_by_several_threads_is_no_leak(by_parts: None) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        config = json.dumps(FAMILIES["llama"].config().to_dict(), default=str)
        assert _try.__wrapped__(config, None, Arithmetic()).refusal is None
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("mode", ["packed", "apart"])
def test_no_part_is_larger_than_it_may_be_in_either_mode(mode: Any, by_parts: None, tmp_path: Path) -> None:
    family, batch, seen = FAMILIES["llama"], documents(), []
    family.config().save_pretrained(tmp_path)
    choice = choose(tmp_path, mode)
    model = family.model(**choice.loading)
    choice.prepare(model)
    model.lm_head.register_forward_hook(lambda _module, _args, logits: seen.append(logits.shape[-2]))
    assert len(token_losses(model, batch)) == batch.learned
    assert max(seen) <= PART < batch.learned <= sum(seen)


def test_an_adapter_of_the_output_layer_is_in_the_loss_and_trains(by_parts: None) -> None:
    config = LoraConfig(task_type="CAUSAL_LM", r=4, target_modules=["lm_head"], lora_dropout=0.5)
    model = get_peft_model(FAMILIES["llama"].model(), config)
    ids = torch.arange(10, 40)[None]
    torch.manual_seed(0)
    losses_at(model, torch.arange(29), ids[0, 1:], input_ids=ids).sum().backward()
    assert set(gradients(model)) == {f"base_model.model.lm_head.lora_{one}.default.weight" for one in "AB"}


def test_a_model_without_a_backbone_of_its_own_gives_the_same_losses(by_parts: None) -> None:
    model = FAMILIES["llama"].model()
    ids = torch.arange(10, 40)[None]
    expected = losses_at(model, torch.arange(29), ids[0, 1:], input_ids=ids)
    model.base_model_prefix = "nothing"
    torch.testing.assert_close(losses_at(model, torch.arange(29), ids[0, 1:], input_ids=ids), expected)


def test_a_loss_by_parts_takes_less_than_half_the_memory_of_all_logits(monkeypatch: pytest.MonkeyPatch) -> None:
    config = FAMILIES["llama"].config()
    config.vocab_size = 16_384
    model = type(FAMILIES["llama"].model())(config)
    ids = torch.randint(5, 280, (1, 513))
    places, targets = torch.arange(512), ids[0, 1:]
    peaks = []
    for at_once in (1 << 30, 1 << 20):
        monkeypatch.setattr(output_layer, "LOGITS_AT_ONCE", at_once)
        meter = Meter()
        meter.track(list(model.parameters()))
        with meter:
            losses_at(model, places, targets, input_ids=ids).sum().backward()
        model.zero_grad(set_to_none=True)
        peaks.append(meter.peak)
    assert peaks[1] < 0.5 * peaks[0]
