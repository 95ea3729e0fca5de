"""Ways to compute that the trainer does not offer, to learn on a GPU whether it should."""

# ruff: noqa: TID253 -- imported by the program that measures torch.

from typing import Any

import torch
from numpy.typing import NDArray
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint

from ft_assets.workers.packs.isolation.batches import MicroBatch
from ft_assets.workers.training.methods.objective import Objective, Part, Whole


class ChunkedLikelihood(Objective):
    """``methods/sft.py``, with head and loss fused: ``chunk`` learned tokens at a time, computed again in the backward
    pass, so the logits of a whole row, in float32 the largest tensor of all, never exist."""

    def __init__(self, chunk: int) -> None:
        self._chunk = chunk

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None = None) -> Part:
        causal = model.get_base_model() if hasattr(model, "get_base_model") else model
        hidden = causal.model(
            input_ids=batch.input_ids,
            position_ids=batch.position_ids,
            cu_seq_lens_q=batch.boundaries,
            use_cache=False,
        ).last_hidden_state[0, batch.sources]
        pieces = zip(hidden.split(self._chunk), batch.targets.split(self._chunk), strict=True)
        losses = [checkpoint(_loss, causal.lm_head, rows, targets, use_reentrant=False) for rows, targets in pieces]
        return Part(loss=torch.stack(losses).sum() / whole.learned)


def _loss(head: torch.nn.Module, rows: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Cross-entropy summed over ``rows``, hidden states [tokens, width], in nats."""
    return cross_entropy(head(rows).float(), targets, reduction="sum")
