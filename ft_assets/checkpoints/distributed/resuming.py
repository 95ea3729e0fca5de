"""One save for all ranks: each node fetches it once."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import json
from collections.abc import Callable
from pathlib import Path

import torch

from ft_assets.checkpoints.ranks import Ranks
from ft_assets.checkpoints.saves import Save, SaveRecord


def found_together(ranks: Ranks, scratch: Path, find: Callable[[], Save | None]) -> Save | None:
    """What ``find`` finds on the node's first rank, for each rank; they share ``scratch``.

    Raises RuntimeError where nodes found different saves, as one may have read a damaged copy: the next attempt looks
    again.
    """
    if ranks.alone:
        return find()
    told = scratch / "found.json"
    if ranks.local == 0:
        save = find()
        scratch.mkdir(parents=True, exist_ok=True)
        told.write_text(
            "null"
            if save is None
            else json.dumps([save.attempt, save.record.model_dump(mode="json"), str(save.folder)])
        )
    ranks.together()
    raw = json.loads(told.read_bytes())
    found = None if raw is None else Save(attempt=raw[0], record=SaveRecord.model_validate(raw[1]), folder=Path(raw[2]))
    step = torch.tensor(-1 if found is None else found.record.step, dtype=torch.float64)
    if int(ranks.total(step)) != int(step) * ranks.world:
        raise RuntimeError("the nodes found different saves to go on from")
    return found
