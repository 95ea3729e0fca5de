"""The ranks of one training: which one this process is, and the values that they exchange."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from ft_assets.settings.layout import local_rank, node_name
from ft_assets.workers.packs.isolation.context import ContextGroup

PATIENCE_S = 1800.0
"""How long a rank waits for others. Reading a large model or save may take minutes."""
_PATIENCE = timedelta(seconds=PATIENCE_S, minutes=5)
"""Timeout of a collective: later than ``HangWatch``, which ends the rank with a reason. A rank that dies ends the
others on its node at once, and its broken connections end those on other nodes."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """``rank`` of ``world`` processes, the ``local``-th of its node.

    ``nodes`` names each rank's machine; ``store`` is the key-value store of the process group.
    With ``context``, neighbouring ranks read the same windows, and each has a slice of their tokens.
    ``virtual`` is the number of virtual ranks that this process computes in turn (``distributed/virtual.py``); 0: none.
    A single rank does not use torch.distributed. Otherwise every rank must call the methods that exchange something,
    equally often and in the same order, or all wait for ever.
    """

    rank: int = 0
    world: int = 1
    local: int = 0
    context: ContextGroup | None = None
    virtual: int = 0
    nodes: Sequence[str] = ()
    store: dist.Store | None = field(default=None, repr=False, compare=False)

    @property
    def first(self) -> bool:
        """Whether this is the rank that writes progress, ledger, saves and report."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.world == 1

    @property
    def readers(self) -> int:
        """How many ranks, or groups of ranks, read different windows."""
        return self.world // self._together

    @property
    def parts(self) -> range:
        """The numbers of this rank's parts of each micro-batch: one, or one for each of its virtual ranks."""
        each, reader = max(1, self.virtual), self.rank // self._together
        return range(reader * each, (reader + 1) * each)

    @property
    def all_parts(self) -> int:
        """The number of parts that a micro-batch has over all ranks."""
        return self.readers * max(1, self.virtual)

    @property
    def _together(self) -> int:
        return self.context.size if self.context else 1

    def any(self, flag: bool) -> bool:
        """Whether ``flag`` is set on any rank; all ranks get the same answer."""
        return any(other for (other,) in self.gathered([flag]))

    def total(self, value: torch.Tensor) -> torch.Tensor:
        """The sum of ``value`` over the ranks, on its device."""
        if self.alone:
            return value
        summed = value.clone()
        dist.all_reduce(summed)
        return summed

    def gathered(self, values: Sequence[float]) -> list[list[float]]:
        """``values`` of every rank, in their order. Always exchanged on the CPU."""
        if self.alone:
            return [list(values)]
        own = torch.tensor(values, dtype=torch.float64)
        everyone = [torch.empty_like(own) for _ in range(self.world)]
        dist.all_gather(everyone, own)
        return [each.tolist() for each in everyone]

    def together(self) -> None:
        """Barrier: continue once every rank is here."""
        if not self.alone:
            self.any(False)

    def draw_afresh(self, seed: int, step: int, part: int | None = None) -> None:
        """Seed the random draws (dropout) of step ``step`` from the run's seed, the step and the (virtual) rank.

        Ranks draw different numbers, and a resumed run needs no saved generators. A single process without virtual
        ranks continues with its own generators, which its saves contain.
        """
        if not self.alone or self.virtual:
            place = self.rank if part is None else part
            # Odd multipliers of 64 bits keep the seeds of neighbours apart.
            torch.manual_seed((seed * 0x9E3779B97F4A7C15 + step * 0xC2B2AE3D27D4EB4F + place) % 2**63)


def join(device: str, context_parallel: int = 1, virtual_ranks: int = 0) -> Ranks:
    """Connect to the other ranks that torchrun started, with one GPU per rank if ``device`` is cuda.

    Groups of ``context_parallel`` neighbours share their windows; ``virtual_ranks`` are divided among all ranks.
    """
    if device == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # The number of collectives that the flight recorder keeps; ``distributed/hangs.py`` reads it.
    os.environ.setdefault("TORCH_FR_BUFFER_SIZE", "500")
    store, rank, world = next(dist.rendezvous("env://"))
    # Collectives on CPU tensors use gloo, whatever device trains.
    dist.init_process_group(
        "cpu:gloo,cuda:nccl" if device == "cuda" else "gloo",
        store=store,
        rank=rank,
        world_size=world,
        timeout=_PATIENCE,
    )
    store.set(f"ft-node/{rank}", node_name())
    nodes = tuple(store.get(f"ft-node/{other}").decode() for other in range(world))
    context = None
    if context_parallel > 1:
        handle, _ = dist.new_subgroups(context_parallel)
        context = ContextGroup(size=context_parallel, place=rank % context_parallel, handle=handle)
    return Ranks(
        rank=rank,
        world=world,
        local=local_rank(),
        context=context,
        virtual=virtual_ranks // world,
        nodes=nodes,
        store=store,
    )
