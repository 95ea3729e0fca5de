"""Muon for the matrices of a model's layers and AdamW for all else, as one optimizer.

Muon (https://kellerjordan.github.io/posts/muon/) moves a matrix along the orthogonal matrix nearest to its momentum.
It has one moment, AdamW two. Its steps are scaled to the length of AdamW's (https://arxiv.org/abs/2502.16982), so that
both use the same learning rate and decay.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import AdamW, Muon


class MuonAndAdamW(torch.optim.Optimizer):
    """Takes over the groups of ``adamw``: first the matrices in the layers of ``model``, for Muon, then the others.

    AdamW updates embeddings, the output layer, vectors and stacks of experts: Muon is for single matrices inside a
    model.
    """

    def __init__(self, adamw: torch.optim.Optimizer, model: Any):
        outer = {id(each.weight) for each in (model.get_input_embeddings(), model.get_output_embeddings()) if each}
        matrices, others = [], []
        for group in adamw.param_groups:
            inside = [each for each in group["params"] if each.ndim == 2 and id(each) not in outer]
            rest = [each for each in group["params"] if each.ndim != 2 or id(each) in outer]
            settings = {"lr": group["lr"], "weight_decay": group["weight_decay"]}
            matrices += [{"params": inside, **settings}] if inside else []
            others += [{"params": rest, **settings}] if rest else []
        fused = {name: adamw.defaults[name] for name in ("betas", "eps", "fused")}
        self._inner = (Muon(matrices, adjust_lr_fn="match_rms_adamw"), AdamW(others, **fused))
        super().__init__([group for each in self._inner for group in each.param_groups], {})

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """One step of both optimizers. They get the groups each time, as ``load_state_dict`` makes new ones."""
        assert closure is None
        groups = list(self.param_groups)
        for each in self._inner:
            each.param_groups, groups = groups[: len(each.param_groups)], groups[len(each.param_groups) :]
            each.state = self.state
            each.step()
