"""The loss on the validation split."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.training.methods.objective import Objective, Whole, surveyed
from ft_assets.workers.training.ranks import Ranks
from ft_assets.workers.training.reader import References, dealt, whole_of


@torch.no_grad()
def validation_loss(
    model: Any,
    objective: Objective,
    pack: Pack,
    device: torch.device,
    windows: int,
    poll: Callable[[], None],
    reference: NDArray[Any] | None = None,
    ranks: Ranks | None = None,
) -> float | None:
    """The method's loss over ``pack``; ``poll`` is called between forward passes of ``windows`` windows.

    ``reference`` has a log-probability for each document of the pack. Ranks share the work and get the same result.
    Weights count as they do in training. None if the pack has no learned tokens. The model's mode is restored.
    """
    whole, ranks = whole_of_pack(pack), ranks or Ranks()
    if not whole.learned:
        return None
    references = References(pack, reference)
    training = model.training
    model.eval()
    # On the device, so that the host waits once; in float64, as Python adds floats up.
    total = torch.zeros((), dtype=torch.float64, device=device)
    try:
        shares = dealt(np.arange(len(pack)), windows, ranks)
        read = ((share.read(pack), references.of(share.windows)) for share in shares)
        whole = surveyed(objective, model, read, whole, ranks, device)
        for share in shares:
            poll()
            batch = share.read(pack).to(device)
            if batch.learned:
                total += objective.part(model, batch, whole, references.of(share.windows)).loss
            elif not ranks.alone:
                # All ranks gather a sharded model for each forward pass.
                token_losses(model, batch)
    finally:
        model.train(training)
    return float(ranks.total(total))


def whole_of_pack(pack: Pack) -> Whole:
    """The totals over all of ``pack``."""
    shards = zip(pack.shards(), pack.index.shards, strict=True)
    return whole_of(pack, (shard.read(0, size.windows) for shard, size in shards), len(pack))
