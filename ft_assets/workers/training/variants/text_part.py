"""The parts of a composite model that are never trained: its vision tower, its projector."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from typing import Any

import torch

from ft_assets.settings.catalogue.composites import COMPOSITES


def other_parts(model: Any) -> list[str]:
    """Names of the outermost modules of ``model`` that contain nothing of its text part; [] for a text-only model."""
    if model.config.model_type not in COMPOSITES:
        return []
    text = {id(module) for part in _text_parts(model) for module in part.modules()}
    holders = {name for name, module in model.named_modules() if any(id(each) in text for each in module.modules())}
    return sorted(
        name for name, _ in model.named_modules() if name not in holders and name.rpartition(".")[0] in holders
    )


def freeze_other_parts(model: Any) -> None:
    """Leave only the text part to be trained."""
    if model.config.model_type in COMPOSITES:
        model.requires_grad_(False)
        for part in _text_parts(model):
            part.requires_grad_(True)


def _text_parts(model: Any) -> list[torch.nn.Module]:
    return [model.get_decoder(), model.get_output_embeddings()]
