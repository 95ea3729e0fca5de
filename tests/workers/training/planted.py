"""Trouble that a test plants in ranks, which are processes of their own."""

import os
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

REFUSED = "refused.safetensors"


def nan_in_step_4() -> None:
    """The second rank's seventh loss is no number. The weights after the refusal are left beside the ranks' endings."""
    from ft_assets.workers.training.methods import sft
    from ft_assets.workers.training.trainer import PackedTrainer
    from ft_resources.errors import Diverged

    second, folder = os.environ["RANK"] == "1", Path(sys.argv[1])
    summed_loss, grad_norm, calls = sft.summed_loss, PackedTrainer._get_grad_norm, 0

    def spoilt(model: Any, batch: Any) -> torch.Tensor:
        nonlocal calls
        # Two windows a step are the second rank's, read one by one.
        calls += 1
        return summed_loss(model, batch) * (float("nan") if second and calls == 7 else 1.0)

    def watched(self: PackedTrainer, *args: Any, **kwargs: Any) -> Any:
        try:
            return grad_norm(self, *args, **kwargs)
        except Diverged:
            model: Any = self.model
            weights = {name: self.sharding.whole(value).detach().clone() for name, value in model.named_parameters()}
            if not second:
                save_file(weights, folder / REFUSED)
            raise

    sft.summed_loss = spoilt
    PackedTrainer._get_grad_norm = watched  # type: ignore[method-assign]
