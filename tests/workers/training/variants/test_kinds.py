"""Each kind of adapter: base and saved adapter compute what was trained, merged or not."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from peft.optimizers import create_loraplus_optimizer
from transformers import AutoModelForCausalLM, MixtralConfig, MixtralForCausalLM

from ft_assets.settings.recipe.training import LoraSettings
from ft_assets.workers.base_models.merge import CONFIG, WEIGHTS, merge_adapter
from ft_assets.workers.training import model as trained_model
from ft_assets.workers.training.model import with_adapters
from ft_assets.workers.training.train import train
from ft_assets.workers.training.variants.lora_plus import split_rates
from ft_resources.errors import BadRecipe
from tests.workers.training.test_trainer import built
from tests.workers.training.variants.kinds import KINDS, final, logits_of, make_kind, on_its_base

pytestmark = pytest.mark.training


@pytest.fixture
def logits_when_saved(monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Filled by each save with what the model computes just then, by the folder's name."""
    seen: dict[str, torch.Tensor] = {}
    save = trained_model.save_final

    def watched(model: Any, folder: Path, *rest: Any, **named: Any) -> None:
        mode = model.training
        seen[folder.name] = logits_of(model.eval())
        model.train(mode)
        save(model, folder, *rest, **named)

    monkeypatch.setattr(trained_model, "save_final", watched)
    return seen


@pytest.mark.parametrize("kind", KINDS)
def test_the_trained_model_is_the_untouched_base_with_the_saved_adapter_and_the_merged_one(
    tmp_path: Path, kind: str, logits_when_saved: dict[str, torch.Tensor]
) -> None:
    bench = make_kind(tmp_path, kind)
    result = train(bench.context())
    trained = logits_when_saved["final"]
    both = on_its_base(bench, final(result))
    torch.testing.assert_close(logits_of(both), trained, atol=1e-5, rtol=0)
    with both.disable_adapter():
        assert (logits_of(both) - trained).abs().max() > 1e-2
    torch.testing.assert_close(logits_of(both.merge_and_unload()), trained, atol=1e-5, rtol=0)
    merged = shutil.copytree(bench.inputs["base"].folder(bench.scratch / "plain"), tmp_path / "merged")
    merge_adapter(
        json.loads((final(result) / CONFIG).read_bytes()),
        final(result) / WEIGHTS,
        [merged / "model.safetensors"],
        tied=False,
    )
    torch.testing.assert_close(logits_of(AutoModelForCausalLM.from_pretrained(merged)), trained, atol=1e-5, rtol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_weights_that_were_kept_are_those_of_their_step(
    tmp_path: Path, kind: str, logits_when_saved: dict[str, torch.Tensor]
) -> None:
    bench = make_kind(tmp_path, kind, validate_every_steps=4, keep_best=1, max_steps=6)
    result = train(bench.context())
    (kept,) = (result.folder / "kept").iterdir()
    found = logits_of(on_its_base(bench, kept))
    torch.testing.assert_close(found, logits_when_saved["keeping"], atol=1e-5, rtol=0)
    assert (found - logits_when_saved["final"]).abs().max() > 1e-3


def test_b_learns_at_its_multiple_of_the_scheduled_rate_and_the_rate_that_is_told_is_that_of_a(tmp_path: Path) -> None:
    trainer = built(make_kind(tmp_path, "lora_plus", schedule="linear", warmup_ratio=0.5))
    seen = []

    def look(*step: Any) -> None:
        assert trainer.optimizer is not None
        rates = {id(each): group["lr"] for group in trainer.optimizer.param_groups for each in group["params"]}
        model: Any = trainer.model
        sides = {
            side: {rates[id(value)] for name, value in model.named_parameters() if f".lora_{side}." in name}
            for side in "AB"
        }
        assert len(rates) == 28
        seen.append((trainer.last_figures["learning_rate"], *sides["A"], *sides["B"]))

    trainer._before_update = look
    trainer.train()
    assert len({told for told, _, _ in seen}) > 2
    for told, a, b in seen:
        assert (told, b) == (a, pytest.approx(8 * a))


@pytest.mark.parametrize("asked", [{"dropout": 0.1}, {"use_dora": True}, {"init": "pissa"}])
def test_what_peft_has_not_over_experts_is_refused_before_anything_is_learned(asked: dict[str, Any]) -> None:
    sizes = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = MixtralConfig(vocab_size=60, num_local_experts=2, num_key_value_heads=2, **sizes)
    model = MixtralForCausalLM(config)
    with pytest.raises(BadRecipe, match=f"adapters of experts have no {next(iter(asked))}"):
        with_adapters(model, LoraSettings(rank=4, alpha=4, **asked))
    with_adapters(model, LoraSettings(rank=4, alpha=4, use_rslora=True))


@pytest.mark.parametrize("dora", [False, True])
def test_rates_are_split_as_peft_splits_them(dora: bool) -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(12, 20), torch.nn.Linear(20, 7))
    model: Any = get_peft_model(layers, LoraConfig(r=4, target_modules=["0", "1"], use_dora=dora))
    names = {id(value): name for name, value in model.named_parameters()}

    def rates(optimizer: torch.optim.Optimizer) -> dict[str, float]:
        return {names[id(each)]: group["lr"] for group in optimizer.param_groups for each in group["params"]}

    ours = torch.optim.AdamW([value for value in model.parameters() if value.requires_grad], lr=1e-3)
    split_rates(ours, model, 16.0)
    assert rates(ours) == rates(create_loraplus_optimizer(model, torch.optim.AdamW, lr=1e-3, loraplus_lr_ratio=16.0))
