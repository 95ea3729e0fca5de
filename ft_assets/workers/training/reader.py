"""Read the batches of each optimizer step and prepare them for the device."""

import math
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ft_assets.settings.catalogue.forms import FORMS
from ft_assets.workers.offsets import offsets_of
from ft_assets.workers.packs.format import Pack, Window
from ft_assets.workers.packs.isolation.batches import MicroBatch, micro_batch, split_windows
from ft_assets.workers.packs.isolation.context import ContextGroup
from ft_assets.workers.packs.sampler import Order, Step
from ft_assets.workers.training.methods.objective import Whole
from ft_assets.workers.training.ranks import Ranks


@dataclass(frozen=True, kw_only=True, slots=True)
class StepBatches:
    """One optimizer step: this rank's micro-batches, and counts over all ranks.

    ``parts`` has for each micro-batch the number of its rank, or virtual rank. ``tokens`` counts all ranks' tokens;
    ``waited_s`` is the time spent reading.
    """

    step: Step
    parts: list[int]
    batches: list[MicroBatch]
    references: list[NDArray[Any] | None]
    whole: Whole
    tokens: int
    waited_s: float


class StepReader:
    """Yields ``{"read": StepBatches}`` from where ``position`` points when reading begins.

    ``micro_windows`` is the number of windows in one forward pass of one rank; ``reference`` has a log-probability for
    each document of the pack, float32 [documents].
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
        self._references = References(pack, reference)

    def __iter__(self) -> Iterator[dict[str, StepBatches]]:
        for step in self.order.read(self.position):
            began = time.perf_counter()
            yield {"read": self._read(step, began)}

    def first_batch(self) -> StepBatches:
        """The first micro-batch of the whole run, wherever this attempt begins."""
        step = next(iter(self.order.read()))
        return self._read(step, time.perf_counter(), most=1)

    def _read(self, step: Step, began: float, most: int | None = None) -> StepBatches:
        shares = dealt(step.windows, self.micro_windows, self.ranks)[:most]
        batches = [share.read(self.pack) for share in shares]
        whole, tokens = self._counts(step, batches)
        return StepBatches(
            step=step,
            parts=[share.part for share in shares],
            batches=batches,
            references=[self._references.of(share.windows) for share in shares],
            whole=whole,
            tokens=tokens,
            waited_s=time.perf_counter() - began,
        )

    def _counts(self, step: Step, batches: Sequence[MicroBatch]) -> tuple[Whole, int]:
        """The step's totals and its tokens over all ranks, computed here from all windows, without an exchange."""
        windows = len(step.windows)
        if self.ranks.alone and not self.pack.index.weighed:
            learned = sum(batch.learned for batch in batches)
            return Whole(learned=learned, examples=windows), sum(batch.tokens for batch in batches)
        read = self.pack.read(step.windows)
        return whole_of(self.pack, [read], windows), len(read.input_ids)


def whole_of(pack: Pack, parts: Iterable[Window], windows: int) -> Whole:
    """The totals over ``windows`` windows of ``pack``, read in parts.

    A document's first token is never learned, whatever its flag (see ``as_row``). Sums of weights are rounded once, so
    neither the parts nor their order change the result.
    """
    count, learned, examples = 0, list[float](), list[float]()
    form = FORMS[pack.index.form]
    for part in parts:
        firsts = offsets_of(part.document_lengths)[:-1]
        weights = pack.weights_of(part.examples)
        if weights is None:
            count += int(np.count_nonzero(part.learned)) - int(np.count_nonzero(part.learned[firsts]))
        else:
            tokens = np.add.reduceat(part.learned, firsts, dtype=np.int64) - part.learned[firsts]
            learned += (tokens * weights).tolist()
            examples += weights[:: form.documents].tolist()
    if not pack.index.weighed:
        return Whole(learned=count, examples=windows)
    return Whole(learned=math.fsum(learned), examples=math.fsum(examples) if form.own_windows else windows)


class References:
    """Reference log-probabilities of the documents of ``pack``, float32 [documents]; None for methods without one."""

    def __init__(self, pack: Pack, values: NDArray[Any] | None) -> None:
        self._pack, self._values = pack, values

    def of(self, windows: Sequence[int]) -> NDArray[Any] | None:
        """The log-probabilities of the documents in ``windows``, in reading order."""
        values = self._values
        if values is None:
            return None
        edges = self._edges
        return np.concatenate([np.empty(0, np.float32), *(values[edges[each] : edges[each + 1]] for each in windows)])

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        """Index of each window's first document, and the total: int64 [windows + 1]."""
        return offsets_of(np.concatenate([np.diff(shard.window_offsets) for shard in self._pack.shards()]))


@dataclass(frozen=True, kw_only=True, slots=True)
class Share:
    """The ``windows`` of a micro-batch that a rank reads, its ``part``; if empty, it computes ``stand_in`` and learns
    nothing.

    With ``context`` it reads its slice of them.
    """

    part: int
    windows: Sequence[int]
    stand_in: int
    context: ContextGroup | None = None

    def read(self, pack: Pack) -> MicroBatch:
        row = micro_batch(pack, self.windows if len(self.windows) else [self.stand_in])
        if not len(self.windows):
            row = replace(row, sources=row.sources[:0], targets=row.targets[:0])
        return row.slice_for(self.context) if self.context else row


def dealt(windows: NDArray[np.int64], micro_windows: int, ranks: Ranks) -> list[Share]:
    """This rank's part of ``windows``, micro-batch by micro-batch; every rank has the same number.

    Two ranks that read two windows each at a time::

        windows      4 0 6 2 | 1
        rank 0       4   6   | 1
        rank 1         0   2 | (1, learning nothing of it)

    Ranks that share their windows get the same ones, each a slice. Virtual ranks come one after the other.
    """
    every = ranks.all_parts
    pieces = split_windows(windows, micro_windows * every)
    return [
        Share(part=part, windows=piece[part::every], stand_in=piece[0], context=ranks.context)
        for part in ranks.parts
        for piece in pieces
    ]
