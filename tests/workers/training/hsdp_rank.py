"""One of four ranks, as two nodes with two GPUs each would have, two of which share each window.

In a fork, instead of a training: rank 0 leaves the gradients of one step over the pack in the folder, and the number of
weights that it holds itself.
"""

import json
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

from ft_assets.settings.recipe.training import TrainingSettings
from ft_assets.workers.packs.format import Pack
from ft_assets.workers.packs.isolation.batches import micro_batch
from ft_assets.workers.training.distributed.sharding import FullyShardedData
from ft_assets.workers.training.methods.sft import summed_loss
from ft_assets.workers.training.model import load_base
from ft_assets.workers.training.ranks import join


def main() -> None:
    folder, ranks = Path(sys.argv[1]), join("cpu", 2)
    sharding = FullyShardedData(2, ranks.world // 2, half=False)
    with sharding.loading() as spread:
        model = load_base(folder / "base", TrainingSettings(precision="fp32"), full=True, spread=spread)
    pack = Pack.open(folder / "pack", "train")
    row = micro_batch(pack, range(8)[ranks.parts.start :: ranks.all_parts])
    summed_loss(model, row.slice_for(ranks.context) if ranks.context else row).backward()
    # Ranks average, and the step's gradient is a sum.
    found = {name: sharding.whole(weight.grad) * ranks.world for name, weight in model.named_parameters()}
    held = sum(weight.to_local().numel() for weight in model.parameters())
    if ranks.first:
        save_file({name: value.contiguous() for name, value in found.items()}, folder / "gradients.safetensors")
        (folder / "held.json").write_text(json.dumps(held))
    torch.distributed.destroy_process_group()
    os._exit(0)
