"""How many processes a training has, and how they hold the model."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ft_resources.errors import BadRecipe

Sharding = Literal["none", "fsdp", "hsdp", "zero1", "zero2", "zero3"]
_ZERO = {"zero1": 1, "zero2": 2, "zero3": 3}


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """``processes`` on each of ``nodes`` machines; ``sharding`` is how they hold the model.
    ``context_parallel`` neighbours share their windows, each with a slice of the tokens. With
    ``virtual_ranks`` (0: none) each process computes as many of them as the others.

    Part of ``runtime``, never of an artifact's identity: every layout gives the same result up to rounding, and each
    attempt may use a different one.
    """

    processes: int = 1
    nodes: int = 1
    sharding: Sharding = "none"
    context_parallel: int = 1
    virtual_ranks: int = 0

    @property
    def world(self) -> int:
        return self.processes * self.nodes

    @property
    def shards(self) -> int:
        """How many ranks share one copy of the weights by FSDP2; 1 where each has a whole one."""
        return {"fsdp": self.world, "hsdp": self.processes}.get(self.sharding, 1)

    def zero_stage(self, *, adapters: bool) -> int:
        """DeepSpeed's ZeRO stage; 0 without DeepSpeed's engine.

        Also 0 for adapters at stages 1 and 2, which would only shard states that are small anyway.
        """
        stage = _ZERO.get(self.sharding, 0) if self.world > 1 else 0
        return 0 if adapters and stage < 3 else stage


def layout_of(runtime: Mapping[str, Any]) -> Layout:
    """The layout in a spec's ``runtime``. Raises BadRecipe for an invalid one."""
    names = ("processes", "nodes", "sharding", "context_parallel", "virtual_ranks")
    found = {name: runtime[name] for name in names if name in runtime}
    layout = Layout(**found)
    if layout.world == 1:
        # One process has nothing to shard with.
        return Layout(virtual_ranks=layout.virtual_ranks)
    if min(layout.processes, layout.nodes) < 1 or layout.sharding not in get_args(Sharding):
        raise BadRecipe(
            f"a training cannot run with {found}",
            where="runtime",
            remedy=f"Use at least 1 process and 1 node, and one of {', '.join(get_args(Sharding))} for sharding.",
        )
    if layout.context_parallel < 1 or layout.processes % layout.context_parallel:
        raise BadRecipe(
            f"{layout.processes} processes of a node cannot be divided into groups of {layout.context_parallel} that "
            "share their windows",
            where="hardware.context_parallel",
            remedy="Use a divisor of hardware.gpus, or 1.",
        )
    if layout.virtual_ranks and (layout.virtual_ranks % layout.world or layout.sharding != "none"):
        raise BadRecipe(
            f"{layout.virtual_ranks} virtual ranks cannot be divided evenly among {found}",
            where="runtime",
            remedy="Use a divisor of the virtual ranks as processes, and none for sharding.",
        )
    return layout


def node_rank() -> int:
    """This node's rank, from 0, as set for torchrun or by an indexed Kubernetes Job."""
    return int(os.environ.get("NODE_RANK") or os.environ.get("JOB_COMPLETION_INDEX") or 0)


def node_name() -> str:
    """The machine's name in the cluster, which the pod is told as ``FT_NODE``; elsewhere its host name."""
    return os.environ.get("FT_NODE") or socket.gethostname()


def local_rank() -> int:
    """Which of its node's ranks this process is, from 0. Not ``LOCAL_RANK``, which is 0 for all on GPUs: each sees its
    own GPU only (torchrun's ``--virtual-local-rank``)."""
    return int(os.environ["RANK"]) % int(os.environ["LOCAL_WORLD_SIZE"])
