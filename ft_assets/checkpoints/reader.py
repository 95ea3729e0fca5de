"""What an optimizer step reads, made ready for the device."""

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from ft_assets.checkpoints.methods.objective import Whole
from ft_assets.checkpoints.ranks import Ranks
from ft_assets.checkpoints.sampler import Order, Step
from ft_assets.packs.format import Pack
from ft_assets.packs.isolation.batches import MicroBatch, micro_batch, split_windows


@dataclass(frozen=True, kw_only=True, slots=True)
class StepBatches:
    """One optimizer step: this rank's micro-batches, and what all ranks read together.

    ``tokens`` counts all ranks' tokens; ``waited_s`` is how long reading took.
    """

    step: Step
    batches: list[MicroBatch]
    references: list[NDArray[Any] | None]
    whole: Whole
    tokens: int
    waited_s: float


class StepReader:
    """Yields ``{"read": StepBatches}`` from where ``position`` points when reading begins.

    ``micro_windows`` is the number of windows in one forward pass of one rank.
    """

    def __init__(
        self,
        pack: Pack,
        order: Order,
        micro_windows: int,
        ranks: Ranks | None = None,
        reference: NDArray[Any] | None = None,
    ) -> None:
        self.pack, self.order, self.micro_windows = pack, order, micro_windows
        self.ranks = ranks or Ranks()
        self.reference = reference
        self.position = 0

    def __iter__(self) -> Iterator[dict[str, StepBatches]]:
        for step in self.order.read(self.position):
            began = time.perf_counter()
            yield {"read": self._read(step, began)}

    def _read(self, step: Step, began: float) -> StepBatches:
        pieces = split_windows(step.windows, self.micro_windows * self.ranks.world)
        batches = [micro_batch(self.pack, list(self.ranks.share(piece))) for piece in pieces]
        learned, tokens = sum(batch.learned for batch in batches), sum(batch.tokens for batch in batches)
        return StepBatches(
            step=step,
            batches=batches,
            references=[None] * len(batches),
            whole=Whole(learned=learned, examples=len(step.windows)),
            tokens=tokens,
            waited_s=time.perf_counter() - began,
        )
