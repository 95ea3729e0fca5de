"""Cross-entropy of the learned tokens: supervised fine-tuning, and continued pre-training, where all are learned."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy

from ft_assets.checkpoints.methods.objective import FirstLoss, Part, Whole
from ft_assets.packs.isolation.batches import MicroBatch
from ft_assets.packs.isolation.losses import learned_logits


class Likelihood:
    """The mean negative log-likelihood over the learned tokens of the whole global batch, in nats."""

    figures: tuple[str, ...] = ()

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None = None) -> Part:
        return Part(loss=summed_loss(model, batch) / whole.learned)

    def first_loss(self, *, rough: bool) -> FirstLoss | None:
        return None


def objective(params: Mapping[str, Any]) -> Likelihood:
    """Of ``sft`` and ``cpt``, which have no settings of their own."""
    return Likelihood()


def summed_loss(model: Any, batch: MicroBatch) -> torch.Tensor:
    """Cross-entropy summed over the learned tokens of ``batch``, in nats, float32."""
    return cross_entropy(learned_logits(model, batch), batch.targets, reduction="sum")
