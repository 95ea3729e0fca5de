"""The forward pass of a micro-batch, shared by trainer, doctor and reference."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from typing import Any

import torch
from transformers import PreTrainedModel

from ft_assets.workers.packs.isolation.apart import losses_apart
from ft_assets.workers.packs.isolation.batches import MicroBatch, on_device
from ft_assets.workers.packs.isolation.output_layer import losses_at, transformer_of

_MARK = "documents_run_apart"


def run_apart(model: Any) -> None:
    """From now on, documents run apart in ``model``."""
    setattr(transformer_of(model), _MARK, True)


def runs_apart(model: Any) -> bool:
    """Whether documents run apart in ``model``, by ``run_apart``."""
    found = (module for module in model.modules() if isinstance(module, PreTrainedModel))
    return bool(getattr(next(found, None), _MARK, False))


def token_losses(model: Any, batch: MicroBatch) -> torch.Tensor:
    """Cross-entropy of each learned token of ``batch`` in nats, float32 [learned].

    Only learned positions go through the output layer, which saves its time and memory for all others. For a slice of
    a row, all ranks that share the row must call this.
    """
    if runs_apart(model):
        return losses_apart(model, batch)
    return losses_at(
        model,
        on_device(batch.sources, batch.targets.device),
        batch.targets,
        # A slice's document may begin in an earlier slice, which a mask of this slice alone would not show.
        packed=batch.documents > 1 or batch.part is not None,
        input_ids=batch.input_ids,
        position_ids=batch.position_ids,
        use_cache=False,
        **_told_to_attention(batch),
    )


def _told_to_attention(batch: MicroBatch) -> dict[str, Any]:
    if batch.part is None:
        return {"cu_seq_lens_q": batch.boundaries}
    return {"cu_seq_lens_q": batch.part.boundaries, "row_slice": batch.part}
