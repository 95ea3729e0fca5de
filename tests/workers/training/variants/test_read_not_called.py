"""Fused kernels of state-space layers take the weights of some projections and do not call them: adapters are
elsewhere, and all of them train."""

from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model
from torch.nn.functional import cross_entropy

from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.packs.isolation.choice import choose
from ft_assets.workers.training.model import load_base, require_targets, with_adapters
from ft_assets.workers.training.variants.adapter_targets import read_not_called
from ft_resources.errors import BadRecipe
from tests.workers.packs.isolation.kernels_on_cpu import install
from tests.workers.training.families import FAMILIES
from tests.workers.training.placed import PLACED

MAMBA_2 = ["mamba2", "bamba", "falcon_h1", "granitemoehybrid", "zamba2", "nemotron_h"]
MAMBA = ["mamba", "falcon_mamba"]
IDS = torch.arange(40, 72)[None]


def with_kernels(monkeypatch: pytest.MonkeyPatch, kind: str) -> list[str]:
    """Stand-ins for mamba-ssm's fused kernels; returns where calls of them are listed."""
    called: list[str] = []
    if kind in MAMBA_2:
        install(monkeypatch, kind)
    modeling = import_module(f"transformers.models.{kind}.modeling_{kind}")
    name = "mamba_inner_fn" if kind in MAMBA else "mamba2_split_conv1d_scan_combined"
    kernel = mamba_inner if kind in MAMBA else getattr(modeling, name)

    def watched(*args: Any, **kwargs: Any) -> Any:
        called.append(name)
        return kernel(*args, **kwargs)

    monkeypatch.setattr(modeling, name, watched)
    return called


def mamba_inner(
    xz: torch.Tensor,
    conv1d_weight: torch.Tensor,
    conv1d_bias: torch.Tensor | None,
    x_proj_weight: torch.Tensor,
    delta_proj_weight: torch.Tensor,
    out_proj_weight: torch.Tensor,
    *_: Any,
    **__: Any,
) -> torch.Tensor:
    """Every weight it is given has a part in the result, as in mamba-ssm's; the recurrence has none."""
    x, z = xz.chunk(2, 1)
    x = x * conv1d_weight.sum() + (0 if conv1d_bias is None else conv1d_bias[:, None])
    small = (x.mT @ x_proj_weight.mT)[..., : delta_proj_weight.shape[1]]
    found = (x.mT + small @ delta_proj_weight.mT) * torch.nn.functional.silu(z.mT)
    return found @ out_proj_weight.mT


def backward(model: Any) -> dict[str, torch.Tensor | None]:
    """The gradients of what trains."""
    logits = model.train()(input_ids=IDS, use_cache=False).logits[0, :-1].float()
    cross_entropy(logits, IDS[0, 1:]).backward()
    return {name: weight.grad for name, weight in model.named_parameters() if weight.requires_grad}


def lora(targets: Any = "all-linear") -> LoraSettings:
    return LoraSettings(rank=2, alpha=4, target_modules=targets)


@pytest.mark.parametrize("kind", [*MAMBA_2, *MAMBA])
def test_every_adapter_of_all_linear_gets_a_gradient_from_fused_kernels(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = with_kernels(monkeypatch, kind)
    gradients = backward(with_adapters(FAMILIES[kind].model(), lora()))
    assert called
    assert not [name for name, found in gradients.items() if found is None]
    # At its start B is 0, so only B has gradients other than 0.
    assert not [name for name, found in gradients.items() if "lora_B" in name and not found.any()]  # type: ignore[union-attr]
    assert [name for name in gradients if "in_proj" in name]
    assert not [name for name in gradients if "out_proj" in name]


@pytest.mark.parametrize("kind", ["bamba", "granitemoehybrid", "zamba2"])
def test_an_adapter_at_what_kernels_read_would_not_train_and_plain_peft_allows_it(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = with_kernels(monkeypatch, kind)
    config = LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["in_proj", "out_proj"])
    gradients = backward(get_peft_model(FAMILIES[kind].model(), config))
    assert called
    untrained = {name for name, found in gradients.items() if found is None}
    assert untrained == {name for name in gradients if "out_proj" in name} != set()


@pytest.mark.parametrize("kind", ["bamba", "falcon_h1", "mamba"])
def test_what_kernels_read_is_no_packed_matrix_in_a_base_in_four_bits(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = with_kernels(monkeypatch, kind)
    FAMILIES[kind].model().save_pretrained(tmp_path)
    settings = TrainingSettings(precision="fp32")
    model = load_base(tmp_path, settings, full=False, four_bit=True, choice=choose(tmp_path, "apart"))
    kinds = {name.rpartition(".")[2]: type(module).__name__ for name, module in model.named_modules()}
    assert (kinds["in_proj"], kinds["out_proj"], kinds["lm_head"]) == ("Linear4bit", "Linear", "Linear")
    called.clear()
    gradients = backward(with_adapters(model, lora()))
    assert called
    assert not [name for name, found in gradients.items() if found is None]


@pytest.mark.parametrize(
    ("kind", "read"),
    [
        *((kind, {"out_proj"}) for kind in MAMBA_2),
        *((kind, {"x_proj", "dt_proj", "out_proj"}) for kind in MAMBA),
        # Of what fused kernels read, these call all, or all but one.
        ("zamba", set()),
        ("jamba", {"dt_proj"}),
        ("lfm2", set()),
        ("qwen3_next", set()),
    ],
)
def test_what_a_recipe_names_is_refused_if_its_adapter_would_not_train(kind: str, read: set[str]) -> None:
    model = (FAMILIES | PLACED)[kind].model()
    assert {name.rpartition(".")[2] for name in read_not_called(model)} == read
    there = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    for name in there & {"x_proj", "dt_proj", "out_proj"}:
        if name in read:
            with pytest.raises(BadRecipe, match=f"{name} would not train"):
                require_targets(model, lora((name, "in_proj")))
        else:
            require_targets(model, lora((name,)))
