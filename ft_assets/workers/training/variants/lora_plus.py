"""LoRA+: the matrix B of each adapter learns faster than A (Hayou et al. 2024, https://arxiv.org/abs/2402.12354).

B starts at zero and A does not, so one rate cannot suit both. As in PEFT's ``create_loraplus_optimizer``, vectors learn
at B's rate too. The schedule is that of the whole training, and its ``learning_rate`` is A's.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from typing import Any

import torch


def split_rates(optimizer: torch.optim.Optimizer, model: Any, ratio: float) -> None:
    """Give B ``ratio`` times the rate of ``optimizer``, in parameter groups after all others. Call it before a schedule
    reads the rates."""
    faster = {id(value) for name, value in model.named_parameters() if ".lora_B." in name or value.ndim == 1}
    groups = optimizer.param_groups
    slow = [{**group, "params": [each for each in group["params"] if id(each) not in faster]} for group in groups]
    fast = [
        {**group, "params": [each for each in group["params"] if id(each) in faster], "lr": ratio * group["lr"]}
        for group in groups
    ]
    optimizer.param_groups[:] = [*slow, *fast]
