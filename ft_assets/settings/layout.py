"""How many processes a training has, and how the model lies on them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from ft_resources.errors import BadRecipe

Sharding = Literal["none", "fsdp", "zero1", "zero2", "zero3"]
_ZERO = {"zero1": 1, "zero2": 2, "zero3": 3}


@dataclass(frozen=True, kw_only=True, slots=True)
class Layout:
    """``processes`` on each of ``nodes`` machines; ``sharding`` is how they hold the model.

    Part of ``runtime``, never of an artifact's identity: another layout gives the same result up to rounding, and an
    attempt may have another one than the attempt before.
    """

    processes: int = 1
    nodes: int = 1
    sharding: Sharding = "none"

    @property
    def world(self) -> int:
        return self.processes * self.nodes

    @property
    def fully_sharded(self) -> bool:
        """Whether each rank holds a part of each weight only, by FSDP2."""
        return self.world > 1 and self.sharding == "fsdp"

    def zero_stage(self, *, adapters: bool) -> int:
        """The stage of ZeRO at which DeepSpeed's engine trains; 0 where there is no engine.

        Where adapters train, stages 1 and 2 divide nothing but what is small anyway, and nothing is divided.
        """
        stage = _ZERO.get(self.sharding, 0) if self.world > 1 else 0
        return 0 if adapters and stage < 3 else stage


def layout_of(runtime: Mapping[str, Any]) -> Layout:
    """What a spec's ``runtime`` asks for. Raises BadRecipe for a layout that means nothing."""
    found = {name: runtime[name] for name in ("processes", "nodes", "sharding") if name in runtime}
    layout = Layout(**found)
    if layout.world == 1:
        # One process has nobody to share with.
        return Layout()
    if min(layout.processes, layout.nodes) < 1 or layout.sharding not in get_args(Sharding):
        raise BadRecipe(
            f"no training runs with {found}",
            where="runtime",
            remedy=f"processes and nodes are at least 1, sharding is one of {', '.join(get_args(Sharding))}.",
        )
    return layout


def node_rank() -> int:
    """Which of the nodes this is, from 0: as torchrun's users or an indexed Kubernetes Job say it."""
    return int(os.environ.get("NODE_RANK") or os.environ.get("JOB_COMPLETION_INDEX") or 0)
