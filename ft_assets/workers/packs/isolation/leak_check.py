"""Proof that packing does not leak: the loss of a document in its window is its loss alone.

*Alone* is a row of equal length that starts with the document, followed by filler::

    packed    a0 a1 a2 b0 b1 b2 b3 c0 c1 c2
    b alone   b0 b1 b2 b3 ·  ·  ·  ·  ·  ·      a causal model does not see later tokens

Matrix products with equally many rows take the same path through BLAS, whose sums otherwise differ in their last bits
(one token takes another path than a thousand), so the other documents cause any difference.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ft_assets.workers.packs.format import Pack, Window
from ft_assets.workers.packs.isolation.architectures import REMEDY, length_with_fixed_positions
from ft_assets.workers.packs.isolation.attention import BrokenIsolation, LooksAhead
from ft_assets.workers.packs.isolation.batches import MicroBatch, as_row
from ft_assets.workers.packs.isolation.comparison import Comparison, DocumentLosses
from ft_assets.workers.packs.isolation.context import ContextGroup
from ft_assets.workers.packs.isolation.forward import runs_apart, token_losses
from ft_assets.workers.packs.isolation.output_layer import transformer_of
from ft_resources.errors import BadBase

_SHORTEST_FILLER = 64
"""Filler is cut into documents of this length, or the document's own if that is longer, which bounds its positions."""


def compare(
    model: Any,
    pack: Pack | None,
    windows: Sequence[int] | Window,
    *,
    documents: int | None = None,
    half_precision: bool = False,
    compiled: bool = False,
    context: ContextGroup | None = None,
) -> Comparison:
    """The losses of documents in ``windows``, joined to one row as in training, and alone.

    One forward pass and one more for each document compared, in evaluation mode and without gradients. Modes, gradients
    and random generators are restored.

    Args:
        model: loaded with our attention, perhaps wrapped; on the device that it trains on.
        pack: gives the documents' names; None if nobody reads them.
        windows: their numbers in the pack, or what was read from it and perhaps changed since.
        documents: compare at most this many, the row's last and others spread over it; None for all that learn.
        half_precision: the model computes in bf16 although its weights are in float32.
        compiled: its layers are compiled, and choose where in a row they compute by vectors.
        context: the ranks that share each row; all of them must call this.

    Raises BadBase if the model does not accept boundaries.
    """
    if isinstance(windows, Window):
        window = windows
    else:
        assert pack is not None
        window = pack.read(windows)
    row = as_row(window)
    device = next(model.parameters()).device
    places = _learned_ranges(row)
    chosen = _spread([number for number, (first, last) in enumerate(places) if last > first], documents)
    found = []
    with _undisturbed(model):
        packed = _losses(model, row, device, context) if chosen else np.empty(0)
        for number in chosen:
            first, last = places[number]
            alone = _losses(model, _alone(row, number, first, last), device, context)[: last - first]
            index = int(window.examples[number])
            found.append(
                DocumentLosses(
                    example=pack.example_id(index) if pack else "",
                    row=pack.example_row(index) if pack else index,
                    piece=int(window.pieces[number]),
                    learned=last - first,
                    packed=math.fsum(packed[first:last]),
                    alone=math.fsum(alone),
                )
            )
    tolerance = tolerance_of(model, half_precision, compiled=compiled, sliced=context is not None)
    return Comparison(documents=tuple(found), tolerance=tolerance)


def require_causal(model: Any, row: MicroBatch, *, half_precision: bool = False, compiled: bool = False) -> None:
    """Raise LooksAhead if the losses of a document of ``row`` change once its later half is missing::

        whole   p0 p1 p2 a0 a1 a2 a3
        cut     p0 p1 p2 a0             the losses of a0 and a1 are compared

    For documents that run apart, under the architecture's own attention; ours is causal. Restores what ``compare``
    does.
    """
    found = next(_cuts(row, length_with_fixed_positions(transformer_of(model).config)), None)
    if found is None:
        return
    device = next(model.parameters()).device
    whole, cut = found
    with _undisturbed(model):
        seen, unseen = (_losses(model, each, device, None) for each in (whole, cut))
    losses = DocumentLosses(
        example="",
        row=0,
        piece=0,
        learned=cut.learned,
        packed=math.fsum(seen[: cut.learned]),
        alone=math.fsum(unseen),
    )
    if losses.scaled > tolerance_of(model, half_precision, compiled=compiled):
        raise LooksAhead(type(transformer_of(model)).__name__)


def _cuts(row: MicroBatch, limit: int | None) -> Iterator[tuple[MicroBatch, MicroBatch]]:
    """Documents of ``row``, whole and cut. Rotary positions may change at ``limit`` tokens, so no cut crosses it."""
    for number in range(row.documents):
        whole = row.every(number, row.documents)
        if not whole.learned:
            continue
        kept = (whole.learned + 1) // 2
        end = int(whole.sources[kept - 1]) + 1
        if limit is None or (end <= limit) == (whole.tokens <= limit):
            yield (
                whole,
                replace(
                    whole,
                    input_ids=whole.input_ids[:, :end],
                    position_ids=whole.position_ids[:, :end],
                    boundaries=torch.tensor([0, end], dtype=torch.int32),
                    sources=whole.sources[:kept],
                    targets=whole.targets[:kept],
                ),
            )


def tolerance_of(
    model: torch.nn.Module, half_precision: bool = False, *, compiled: bool = False, sliced: bool = False
) -> float:
    """The largest relative difference of one token's loss that counts as rounding; see ``DocumentLosses.scaled``.

    Both ways are the same operations, and on a CPU in float32 nearly always equal to the bit. But threads divide a
    matrix product by its size, so a token may be summed in another order. Products have other sizes in compiled layers,
    with experts (which divide up tokens), where documents run apart, and in slices of rows (which learn other numbers
    of tokens). On a GPU kernels choose the order of sums, and half precision has 8 or 11 bits. A document of 400 tokens
    may then differ by a thousandth; a leak changes its loss by several hundredths.
    """
    parameters = list(model.parameters())
    devices, dtypes = {each.device.type for each in parameters}, {each.dtype for each in parameters}
    if half_precision or dtypes & {torch.bfloat16, torch.float16}:
        return 2e-2
    if devices != {"cpu"}:
        return 1e-3
    return 1e-4 if compiled or sliced or _has_experts(model) or runs_apart(model) else 1e-5


@contextmanager
def _undisturbed(model: torch.nn.Module) -> Iterator[None]:
    """Evaluation without gradients; afterwards every module's mode and every generator's state is restored."""
    modes = [(module, module.training) for module in model.modules()]
    devices = sorted({each.device.index or 0 for each in model.parameters() if each.is_cuda})
    with torch.random.fork_rng(devices=devices), torch.no_grad():
        model.eval()
        try:
            yield
        finally:
            for module, training in modes:
                module.training = training


def _losses(model: Any, row: MicroBatch, device: torch.device, context: ContextGroup | None) -> NDArray[np.float64]:
    """Losses of the row's learned tokens, float64 [learned]. Raises BadBase if boundaries do not arrive."""
    part = row.slice_for(context) if context else row
    try:
        losses = token_losses(model, part.to(device)).double().cpu()
    except BrokenIsolation as error:
        raise BadBase(
            f"{type(model).__name__} does not hand the documents' boundaries on to its attention ({error})",
            where="base_model",
            remedy=REMEDY,
        ) from error
    if context is None:
        return losses.numpy()
    found = torch.zeros(row.learned, dtype=torch.float64)
    found[row.learned_in(context)] = losses
    return context.total(found).numpy()


def _learned_ranges(row: MicroBatch) -> list[tuple[int, int]]:
    """For each document, the range of its learned tokens among the row's."""
    edges = torch.searchsorted(row.sources, row.boundaries.to(row.sources.dtype)).tolist()
    return list(pairwise(edges))


def _alone(row: MicroBatch, number: int, first: int, last: int) -> MicroBatch:
    """Losses of document ``number`` (its learned tokens are ``first`` to ``last - 1``) before filler, in a row of equal
    size."""
    start, end = row.boundaries[number : number + 2].tolist()
    length, filler = end - start, row.tokens - (end - start)
    piece = max(length, _SHORTEST_FILLER)
    lengths = torch.tensor([length] + [piece] * (filler // piece) + [filler % piece])
    lengths = lengths[lengths > 0]
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), lengths.cumsum(0)])
    ids = row.input_ids[0, start].repeat(row.tokens)
    ids[:length] = row.input_ids[0, start:end]
    # Equally many positions pass the output head; the filler's losses are ignored.
    sources, targets = torch.zeros_like(row.sources), torch.zeros_like(row.targets)
    sources[: last - first] = row.sources[first:last] - start
    targets[: last - first] = row.targets[first:last]
    return MicroBatch(
        input_ids=ids[None],
        position_ids=(torch.arange(row.tokens) - offsets[:-1].repeat_interleave(lengths))[None],
        boundaries=offsets.to(torch.int32),
        sources=sources,
        targets=targets,
    )


def _spread(numbers: list[int], wanted: int | None) -> list[int]:
    """At most ``wanted`` of ``numbers``: the last, which has the most tokens before it, and others evenly spread."""
    if wanted is None or len(numbers) <= wanted:
        return numbers
    return [numbers[-1 - index * len(numbers) // wanted] for index in range(wanted)][::-1]


def _has_experts(model: torch.nn.Module) -> bool:
    """Wrappers of a model hide its config, so its layers are checked."""
    return any("experts" in name.rsplit(".", 1)[-1] for name, _ in model.named_modules())
