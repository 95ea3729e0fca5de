"""PiSSA: adapters that begin with the principal part of each weight (Meng et al. 2024, https://arxiv.org/abs/2404.02948).

The paper splits W into its principal part B0 A0, which trains, and a frozen rest. Here W stays unchanged, and a second,
frozen adapter subtracts the principal part: W - B0 A0 + B A. The function and its gradients are the same. But a base in
bfloat16 is not rounded again, and the result is exactly the base with an adapter of twice the rank, and saved as that.
PEFT's ``init_lora_weights="pissa"`` changes the base's weights.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from peft import get_peft_model_state_dict
from peft.tuners.lora.layer import Linear as LoraLinear
from peft.tuners.lora.layer import LoraLayer
from safetensors.torch import save_file

from ft_resources.errors import BadRecipe

PRINCIPAL = "principal"
"""Name of the frozen adapter."""
_TRAINED = "default"
_ITERATIONS = 16
"""Of the fast singular value decomposition (Halko et al. 2009, https://arxiv.org/abs/0909.4061), as in the paper."""


def start_from_principal(model: Any) -> None:
    """Let ``model``'s new adapters begin with the principal part of their weights, and freeze that part beside them.

    Draws random numbers. Raises BadRecipe for adapters of anything but linear layers.
    """
    model.add_adapter(PRINCIPAL, replace(model.peft_config[_TRAINED]))
    for name, layer in model.named_modules():
        if isinstance(layer, LoraLayer):
            if not isinstance(layer, LoraLinear):
                raise BadRecipe(
                    f"pissa is for linear layers, and {name.removeprefix('base_model.model.')} is not one",
                    where="lora.init",
                    remedy="Leave it out, or name linear layers only in lora.target_modules.",
                )
            _split(layer)
    model.base_model.set_adapter([_TRAINED, PRINCIPAL])
    for name, weight in model.named_parameters():
        if is_principal(name):
            weight.requires_grad_(False)


def is_principal(name: str) -> bool:
    """Whether the parameter of this name belongs to the frozen adapter. Saves include it, as decomposing the weight on
    another machine may give other values."""
    return f".{PRINCIPAL}." in name


def save_from_principal(model: Any, folder: Path) -> None:
    """Turn the trained adapter in ``folder`` into one of both: plain LoRA of twice the rank for the base as it is."""
    trained, principal = (
        get_peft_model_state_dict(model, adapter_name=name, save_embedding_layers=False)
        for name in (_TRAINED, PRINCIPAL)
    )
    both = {
        name: torch.cat([value, principal[name]], dim=0 if ".lora_A." in name else 1).detach().cpu().contiguous()
        for name, value in trained.items()
    }
    save_file(both, folder / "adapter_model.safetensors", metadata={"format": "pt"})
    path = folder / "adapter_config.json"
    config = json.loads(path.read_bytes())
    rank, alpha = config["r"], config["lora_alpha"]
    # alpha / sqrt(rank) of rsLoRA as alpha / rank, so that both halves keep their scale.
    whole = alpha * 2 if not config["use_rslora"] else alpha * 2 * rank**0.5
    path.write_text(json.dumps({**config, "r": 2 * rank, "lora_alpha": whole, "use_rslora": False}))


@torch.no_grad()
def _split(layer: Any) -> None:
    """Set both adapters of ``layer``; where its weight has fewer singular values than their rank, the rest of A stays
    random and that of B zero, as in plain LoRA."""
    weight = layer.get_base_layer().weight.detach().float()
    weight = weight.T if layer.fan_in_fan_out else weight
    left, values, right = torch.svd_lowrank(weight, q=min(layer.r[_TRAINED], *weight.shape), niter=_ITERATIONS)
    root = (values / layer.scaling[_TRAINED]).sqrt()
    a, b = (layer.lora_A[_TRAINED].weight, layer.lora_B[_TRAINED].weight)
    a[: len(root)] = root[:, None] * right.T
    b[:, : len(root)] = left * root
    layer.lora_A[PRINCIPAL].weight.copy_(a)
    layer.lora_B[PRINCIPAL].weight.copy_(-b)
