"""The order in which windows are read: a pure function of a seed, so that resuming needs only a position.

    epoch      0                     | 1                        each epoch is a fresh permutation of all windows;
    windows    4 0 6 | 2 1 | 5 3     | 0 3 1 | 6 5 | 2 4        a global batch never reaches into the next epoch: an
    step       1       2     3         4       5     6          epoch's steps share its windows evenly

A position counts windows since the start of the run. It does not depend on micro-batches, accumulation or ranks, so a
run may resume with other ones.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, kw_only=True, slots=True)
class Step:
    """The input of one optimizer step: ``windows`` (int64 indices) of ``epoch`` (from 0); ``end``: the position
    after."""

    number: int
    epoch: int
    windows: "NDArray[np.int64]"
    end: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """Every window once per epoch, at most ``global_batch`` windows per optimizer step, for ``epochs`` epochs.

    An epoch has as few steps as that allows, and they differ by one window at most: a last step of the few windows that
    are left over would change the weights as much as a whole batch.
    ``max_steps`` ends the run earlier, so that its last epoch may stay incomplete. Each ``block`` of adjacent windows
    (of similar length, see ``packs/packing/buckets.py``) is read consecutively; each epoch draws the order of blocks
    and the order inside each.
    """

    windows: int
    global_batch: int
    epochs: int
    seed: int
    max_steps: int | None = None
    block: int = 1

    def __post_init__(self) -> None:
        if min(self.windows, self.global_batch, self.epochs, self.max_steps or 1, self.block) < 1:
            raise ValueError("windows, global_batch, epochs, max_steps and block are at least 1")

    @property
    def steps_per_epoch(self) -> int:
        return -(-self.windows // self.global_batch)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole run."""
        steps = self.steps_per_epoch * self.epochs
        return steps if self.max_steps is None else min(steps, self.max_steps)

    def epoch_order(self, epoch: int) -> "NDArray[np.int64]":
        """The permutation of all windows that ``epoch`` reads.

        From NumPy's legacy generator, whose stream is frozen: an upgrade between two attempts changes nothing.
        """
        import numpy as np  # not at the top: estimates read an order's length in processes that load no numpy

        draws = np.random.RandomState([self.seed % 2**32, epoch])
        if self.block == 1:
            return draws.permutation(self.windows).astype(np.int64)
        rank = draws.permutation(-(-self.windows // self.block))
        blocks = np.arange(self.windows) // self.block
        return np.lexsort((draws.random_sample(self.windows), rank[blocks])).astype(np.int64)

    def step_at(self, position: int) -> int:
        """The number of optimizer steps that end at or before ``position``, if each began on a batch boundary."""
        return position * self.steps_per_epoch // self.windows

    def position_after(self, step: int) -> int:
        """Windows read by the first ``step`` optimizer steps."""
        return -(-step * self.windows // self.steps_per_epoch)

    def read(self, position: int = 0) -> Iterator[Step]:
        """The steps that remain after ``position`` windows."""
        for epoch in range(position // self.windows, self.epochs):
            order = self.epoch_order(epoch)
            start = epoch * self.windows
            done, last = self.step_at(max(position, start)), (epoch + 1) * self.steps_per_epoch
            for number in range(done + 1, min(last, self.steps) + 1):
                first, end = self.position_after(number - 1), self.position_after(number)
                yield Step(number=number, epoch=epoch, windows=order[first - start : end - start], end=end)
