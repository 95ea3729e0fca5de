"""The processes of one training that work in step: which of them this one is, and what they settle together."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Sequence
from dataclasses import dataclass

import torch


@dataclass(frozen=True, kw_only=True, slots=True)
class Ranks:
    """``rank`` of ``world`` processes. One alone settles everything by itself, without torch.distributed."""

    rank: int = 0
    world: int = 1

    @property
    def first(self) -> bool:
        """Whether this process keeps the books: progress, ledger, saves, report."""
        return self.rank == 0

    def share(self, windows: Sequence[int]) -> Sequence[int]:
        """What this rank reads of a micro-batch's windows."""
        return windows[self.rank :: self.world]

    def any(self, flag: bool) -> bool:
        """Whether ``flag`` is set on any rank; all ranks get the same answer."""
        return flag

    def total(self, value: torch.Tensor) -> torch.Tensor:
        """The sum of ``value`` over the ranks."""
        return value
