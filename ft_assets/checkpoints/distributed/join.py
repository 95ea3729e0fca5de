"""Becoming one of a training's ranks."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import os
from datetime import timedelta

import torch
import torch.distributed as dist

from ft_assets.checkpoints.ranks import Ranks

_PATIENCE = timedelta(minutes=30)
"""A rank waits so long for others. Reading a large model or save may take minutes; a rank that died on this node ends
the others at once, and its connections end those on other nodes."""


def join(device: str) -> Ranks:
    """Meet the other ranks that torchrun started, on a GPU of one's own where ``device`` is cuda."""
    rank, local = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"])
    if device == "cuda":
        torch.cuda.set_device(local)
    # What is settled on the CPU goes over gloo, whatever trains.
    dist.init_process_group("cpu:gloo,cuda:nccl" if device == "cuda" else "gloo", timeout=_PATIENCE)
    return Ranks(rank=rank, world=dist.get_world_size(), local=local)
