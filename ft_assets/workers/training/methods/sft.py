"""Cross-entropy of the learned tokens: supervised fine-tuning, and continued pre-training, in which all are learned."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from typing import Any

import torch
from numpy.typing import NDArray

from ft_assets.workers.packs.isolation.batches import MicroBatch
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.training.methods.objective import Objective, Part, Whole


class Likelihood(Objective):
    """The mean negative log-likelihood over the learned tokens of the whole global batch, in nats, each token with the
    weight of its example.

    For ``sft`` and ``cpt``, which have no settings of their own.
    """

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None = None) -> Part:
        return Part(loss=summed_loss(model, batch) / whole.learned)


def summed_loss(model: Any, batch: MicroBatch) -> torch.Tensor:
    """Cross-entropy summed over the learned tokens of ``batch``, in nats, float32, each with its weight."""
    return batch.weighed(token_losses(model, batch)).sum()
