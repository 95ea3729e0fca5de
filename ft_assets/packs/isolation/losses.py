"""What a model makes of the learned tokens of a row; trainer, doctor and reference share this one forward pass."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from typing import Any

import torch
from torch.nn.functional import cross_entropy

from ft_assets.packs.isolation.batches import MicroBatch


def learned_logits(model: Any, batch: MicroBatch) -> torch.Tensor:
    """The logits that predict the learned tokens of ``batch``, float32 [learned, vocabulary].

    Only positions that are learned go through the output head, which saves its time and memory for all others.
    """
    logits: torch.Tensor = model(
        input_ids=batch.input_ids,
        position_ids=batch.position_ids,
        cu_seq_lens_q=batch.boundaries,
        use_cache=False,
        logits_to_keep=batch.sources,
    ).logits[0]
    return logits.float()


def token_losses(model: Any, batch: MicroBatch) -> torch.Tensor:
    """Cross-entropy of each learned token of ``batch`` in nats, float32 [learned]."""
    return cross_entropy(learned_logits(model, batch), batch.targets, reduction="none")
