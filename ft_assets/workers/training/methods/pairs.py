"""What methods on pairs share: both answers of each pair side by side, and the figures of a step."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ft_assets.workers.packs.isolation.batches import MicroBatch, on_device
from ft_assets.workers.training.reference import document_logps

FIGURES = ("rewards/chosen", "rewards/rejected", "rewards/accuracies", "rewards/margins")
"""TRL's names. A reward is the method's function of an answer's log-probability; accuracy is the share of pairs whose
chosen answer has the larger reward."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Pairs:
    """The pairs of a micro-batch: ``logps`` float32 [pairs, 2], log p of the chosen and the rejected answer, with
    gradients; ``lengths`` float32 [pairs, 2], the number of learned tokens of each, at least 1; ``weights`` float32
    [pairs], how much each counts."""

    logps: torch.Tensor
    lengths: torch.Tensor
    weights: torch.Tensor

    def figures(self, rewards: torch.Tensor, examples: float) -> Mapping[str, torch.Tensor]:
        """``FIGURES`` of the pairs' ``rewards`` [pairs, 2], as their part of means over ``Whole.examples``."""
        chosen, rejected = rewards.detach().unbind(1)
        values = (chosen, rejected, (chosen > rejected).float(), chosen - rejected)
        return {name: (value * self.weights).sum() / examples for name, value in zip(FIGURES, values, strict=True)}


def read_pairs(model: Any, batch: MicroBatch) -> Pairs:
    """The pairs of ``batch``: a window of a preference pack is one pair, its chosen answer's document first."""
    # Packing refuses answers without tokens; should one be there, this avoids a division by 0.
    lengths = on_device(batch.learned_each.clamp(min=1).float(), batch.targets.device)
    logps = document_logps(model, batch).view(-1, 2)
    weights = torch.ones_like(logps[:, 0]) if batch.weights is None else on_device(batch.weights[::2], logps.device)
    return Pairs(logps=logps, lengths=lengths.view(-1, 2), weights=weights)
