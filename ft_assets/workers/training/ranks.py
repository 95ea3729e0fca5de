"""The processes of one training that work in step: which of them this one is, and what they settle together."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """``rank`` of ``world`` processes, the ``local``-th of its node.

    One alone settles everything by itself, without torch.distributed.
    What is settled together is asked for by every rank, as often and in the same order by each, or all wait for ever.
    """

    rank: int = 0
    world: int = 1
    local: int = 0

    @property
    def first(self) -> bool:
        """Whether this process keeps the books: progress, ledger, saves, report."""
        return self.rank == 0

    @property
    def alone(self) -> bool:
        return self.world == 1

    def share(self, windows: Sequence[int]) -> Sequence[int]:
        """What this rank reads of a micro-batch's windows; nothing, perhaps, of a short one."""
        return windows[self.rank :: self.world]

    def any(self, flag: bool) -> bool:
        """Whether ``flag`` is set on any rank; all ranks get the same answer. On the CPU, whatever trains."""
        if self.alone:
            return flag
        flags = torch.tensor([int(flag)], dtype=torch.int32)
        dist.all_reduce(flags, dist.ReduceOp.MAX)
        return bool(flags.item())

    def total(self, value: torch.Tensor) -> torch.Tensor:
        """The sum of ``value`` over the ranks, on its device."""
        if self.alone:
            return value
        summed = value.clone()
        dist.all_reduce(summed)
        return summed

    def together(self) -> None:
        """Go on once every rank has come here."""
        if not self.alone:
            self.any(False)

    def draw_afresh(self, seed: int, step: int) -> None:
        """Let what step ``step`` draws (dropout) follow from the run's seed, the step and the rank.

        So ranks draw different numbers, and a run that goes on needs no rank's generator from before. One process
        alone goes on with its own generators, which its saves hold.
        """
        if not self.alone:
            # Odd multipliers of 64 bits keep the seeds of neighbours apart.
            torch.manual_seed((seed * 0x9E3779B97F4A7C15 + step * 0xC2B2AE3D27D4EB4F + self.rank) % 2**63)
