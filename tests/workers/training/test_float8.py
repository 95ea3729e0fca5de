"""Trainings in 8-bit floats learn what bf16's do up to their rounding, and leave plain weights.

On a CPU the products are torchao's emulation of them: the same casts and scales, multiplied in float32.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

from ft_assets.settings.recipe.training import LoraSettings
from ft_assets.workers.model_size.float8 import can_be_float8, pays_in_float8
from ft_assets.workers.training import float8, kernels
from ft_assets.workers.training.float8 import multiply_in_float8
from ft_assets.workers.training.model import with_adapters
from ft_assets.workers.training.train import train
from ft_resources.errors import BadRecipe, UserError
from tests.workers.training.conftest import content, make_bench

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
