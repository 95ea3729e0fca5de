"""One of the ranks that share a row: ``python -m tests.workers.packs.isolation.context_rank FOLDER``.

For each family whose documents are packed, rank 0 leaves in FOLDER how far losses and gradients of rows that the ranks
share are from those of whole rows, and the share of a whole row's activations that a rank keeps.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch

from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.attention import ATTENTION, register
from ft_assets.workers.packs.isolation.batches import MicroBatch, micro_batch
from ft_assets.workers.packs.isolation.context import ContextGroup
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.packs.isolation.guard import guard
from ft_assets.workers.packs.isolation.leak_check import compare
from ft_assets.workers.training.ranks import join
from tests.workers.training.families import FAMILIES


def main(folder: Path) -> None:
    ranks = join("cpu", 2)
    assert ranks.context is not None
    register()
    pack = Pack.open(folder / "pack", "train")
    found = {}
    for kind, family in FAMILIES.items():
        if family.mode == "packed":
            model = family.model(attn_implementation=ATTENTION)
            guard(model)
            # Two windows, one document, and a row shorter than the group.
            rows = [micro_batch(pack, [0, 1]), micro_batch(pack, [2]).every(0, 100), _short()]
            apart = [_difference(model, row, ranks.context) for row in rows]
            comparison = compare(model, pack, [0, 1], documents=3, context=ranks.context)
            whole, part = (_kept(model, row) for row in (rows[0], rows[0].slice_for(ranks.context)))
            found[kind] = {
                "apart": max(apart),
                "kept": part / whole,
                "compared": len(comparison.documents),
                "passed": comparison.passed,
            }
    if ranks.first:
        (folder / "found.json").write_text(json.dumps(found))
    torch.distributed.destroy_process_group()


def _difference(model: Any, row: MicroBatch, group: ContextGroup) -> float:
    """The largest difference of a loss, or of a gradient relative to its tensor's largest."""
    model.zero_grad()
    losses = token_losses(model, row)
    losses.sum().backward()
    whole = {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}
    model.zero_grad()
    part = token_losses(model, row.slice_for(group).to(torch.device("cpu")))
    part.sum().backward()
    different = [0.0, *(part - losses[row.learned_in(group)]).abs().tolist()]
    for name, weight in model.named_parameters():
        if name in whole:
            summed = group.total(torch.zeros_like(weight) if weight.grad is None else weight.grad)
            largest = max(float(whole[name].abs().max()), 1e-3)
            different.append(float((summed - whole[name]).abs().max()) / largest)
    return max(different)


def _kept(model: Any, row: MicroBatch) -> int:
    """Bytes that a forward pass keeps for its backward pass, without weights."""
    weights = {weight.untyped_storage().data_ptr() for weight in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        # The losses hold the graph, so no memory is counted twice.
        losses = token_losses(model, row)
        del losses
    return sum(kept.values())


def _short() -> MicroBatch:
    return MicroBatch(
        input_ids=torch.tensor([[7]]),
        position_ids=torch.tensor([[0]]),
        boundaries=torch.tensor([0, 1], dtype=torch.int32),
        sources=torch.tensor([0]),
        targets=torch.tensor([9]),
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
