"""The loss on the validation split."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ft_assets.checkpoints.methods.objective import Objective, Whole
from ft_assets.packs.format import Pack
from ft_assets.packs.isolation.batches import micro_batch


@torch.no_grad()
def validation_loss(
    model: Any,
    objective: Objective,
    pack: Pack,
    device: torch.device,
    windows: int,
    poll: Callable[[], None],
    reference: NDArray[Any] | None = None,
) -> float:
    """The method's loss over all of ``pack``; ``poll`` is called between forward passes of ``windows`` windows.

    ``reference`` has a log-probability for each document of the pack. NaN where nothing is learned of the pack. The
    model is left in the mode it was in.
    """
    whole = whole_of(pack)
    if not whole.learned:
        return math.nan
    training = model.training
    model.eval()
    total, documents = 0.0, 0
    try:
        for start in range(0, len(pack), windows):
            poll()
            batch = micro_batch(pack, range(start, min(start + windows, len(pack)))).to(device)
            known = None if reference is None else reference[documents : documents + batch.documents]
            documents += batch.documents
            if batch.learned:
                total += float(objective.part(model, batch, whole, known).loss)
    finally:
        model.train(training)
    return total


def whole_of(pack: Pack) -> Whole:
    """What is learned of all of ``pack``; a document's first token never is, whatever its flag says."""
    learned = 0
    for shard in pack.shards():
        firsts = shard.document_offsets[:-1]
        learned += int(np.count_nonzero(shard.learned)) - int(np.count_nonzero(shard.learned[firsts]))
    return Whole(learned=learned, examples=len(pack))
