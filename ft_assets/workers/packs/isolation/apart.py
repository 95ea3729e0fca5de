"""Documents apart: each in a row of its own, padded on the right, under the architecture's own attention.

For architectures whose layers cannot keep the documents of one row apart. A micro-batch is the same as when packed, and
so are order, ledger, labels and means. Only the forward passes differ: documents of similar length share one, and their
losses come back in the order of the micro-batch::

    packed   a0 a1 a2 b0 b1 c0 c1 c2       apart   a0 a1 a2    b0 b1
                                                   c0 c1 c2

A causal model computes a token from those before it, so the padding after a document changes none of its losses. So no
mask is passed: attention would be slower with one, and the host would wait until the device has inspected it.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist

from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.architectures import length_with_fixed_positions
from ft_assets.workers.packs.isolation.batches import MicroBatch, on_device
from ft_assets.workers.packs.isolation.output_layer import losses_at, transformer_of

_PADDED = 0.2
"""Documents share a forward pass if none is shorter than the longest by more than this share of it."""


@dataclass(frozen=True, slots=True)
class Group:
    """Documents of one forward pass: ``documents`` are their numbers in the micro-batch, of these ``lengths``."""

    documents: tuple[int, ...]
    lengths: tuple[int, ...]

    @property
    def padding(self) -> int:
        """Padding tokens of the pass."""
        return max(self.lengths) * len(self.lengths) - sum(self.lengths)


def groups_of(lengths: Sequence[int], limit: int | None = None) -> list[Group]:
    """Documents of these lengths, in groups of similar length, longest first.

    Documents longer than ``limit`` share a group only with those of their length: some rotary positions change for a
    whole batch with its longest row.
    """
    found: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda each: (-lengths[each], each)):
        longest = lengths[found[-1][0]] if found else 0
        crosses = limit is not None and longest > limit and lengths[number] != longest
        if found and not crosses and lengths[number] >= longest * (1 - _PADDED):
            found[-1].append(number)
        else:
            found.append([number])
    return [Group(tuple(group), tuple(lengths[each] for each in group)) for group in found]


def padding_share(pack: Pack, rows: Iterable[Sequence[int]], limit: int | None) -> float:
    """The share of tokens that are padding when these rows of windows run apart; ``limit`` as in ``groups_of``."""
    padded, tokens = 0, 0
    for windows in rows:
        lengths = pack.read(windows).document_lengths.tolist()
        padded += sum(group.padding for group in groups_of(lengths, limit))
        tokens += sum(lengths)
    return padded / (padded + tokens) if tokens else 0.0


def losses_apart(model: Any, batch: MicroBatch) -> torch.Tensor:
    """Cross-entropy of each learned token of ``batch`` in nats, in its order, float32 [learned]. All ranks of a
    training must call this."""
    inner = transformer_of(model)
    # Not all models have a cache.
    without_cache = {"use_cache": False} if "use_cache" in inspect.signature(inner.forward).parameters else {}
    starts = batch.boundaries.tolist()
    lengths = batch.boundaries.diff().tolist()
    # Each learned token's document, and its place in that document.
    documents = torch.bucketize(batch.sources, batch.boundaries.long(), right=True) - 1
    places = batch.sources - batch.boundaries.long()[documents]
    limit = length_with_fixed_positions(inner.config)
    groups, nothing = [], documents.new_empty(0)
    for group in groups_of(lengths, limit):
        rows = torch.full((batch.documents,), -1)
        rows[list(group.documents)] = torch.arange(len(group.documents))
        mine = (rows[documents] >= 0).nonzero()[:, 0]
        if len(mine):
            groups.append((group, rows, mine))
    shortest = min(range(batch.documents), key=lambda number: lengths[number])
    stand_in = Group((shortest,), (lengths[shortest],)), torch.zeros(batch.documents, dtype=torch.long), nothing
    groups += [stand_in] * (_passes(len(groups)) - len(groups))
    parts, order = [], []
    for group, rows, mine in groups:
        if limit is not None:
            _forget_lengths(inner)
        width = max(group.lengths)
        ids = torch.zeros((len(group.documents), width), dtype=torch.long, device=batch.input_ids.device)
        for row, (document, length) in enumerate(zip(group.documents, group.lengths, strict=True)):
            ids[row, :length] = batch.input_ids[0, starts[document] : starts[document] + length]
        flat = on_device(rows[documents[mine]] * width + places[mine], ids.device)
        targets = batch.targets[on_device(mine, ids.device)]
        parts.append(losses_at(model, flat, targets, input_ids=ids, **without_cache))
        order.append(mine)
    if len(parts) == 1:
        return parts[0]
    back = on_device(torch.cat(order).argsort(), batch.targets.device)
    return torch.cat(parts)[back]


def _passes(own: int) -> int:
    """How many forward passes this rank makes: as many as the rank with the most, and at least one. Ranks that shard a
    model gather it in each pass, so a rank with fewer documents, or nothing to learn, computes stand-ins."""
    if not dist.is_initialized():
        return max(1, own)
    most = torch.tensor(max(1, own))
    dist.all_reduce(most, dist.ReduceOp.MAX)
    return int(most)


def _forget_lengths(model: torch.nn.Module) -> None:
    """Reset rotary positions that grow with a batch (dynamic NTK). Transformers keeps the longest length seen so far,
    so losses would depend on earlier batches, and would differ after a resume."""
    for module in model.modules():
        for name in [name for name in vars(module) if name.endswith("max_seq_len_cached")]:
            setattr(module, name, 0)
