"""Muon: momentum whose matrix-shaped update is orthogonalised (Jordan et al., 2024, "Muon: an optimizer for
hidden layers in neural networks"). In float32, batched over equal shapes, because bfloat16 is slow on CPUs.
"""

from collections.abc import Iterable

import torch

_COEFFICIENTS = (3.4445, -4.7750, 2.0315)  # the quintic of the paper: fast at pulling singular values near 1


def orthogonalised(g: torch.Tensor, steps: int = 5) -> torch.Tensor:
    """Matrices (batch, rows, columns) with singular values moved to about 1 by Newton–Schulz iteration."""
    a, b, c = _COEFFICIENTS
    tall = g.size(-2) > g.size(-1)
    x = g.mT if tall else g
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """For hidden 2-D weights only; embeddings, norms and heads belong to AdamW."""

    def __init__(self, params: Iterable[torch.Tensor], lr: float, momentum: float = 0.95) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """One Nesterov-momentum step for every parameter that has a gradient."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[torch.Tensor]] = {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(p.shape, []).append(p)
            for shape, params in shapes.items():
                updates = []
                for p in params:
                    assert p.grad is not None
                    buffer = self.state[p].setdefault("momentum", torch.zeros_like(p))
                    buffer.lerp_(p.grad, 1 - group["momentum"])
                    updates.append(p.grad.lerp(buffer, group["momentum"]))
                stretch = max(1.0, shape[0] / shape[1]) ** 0.5
                for p, update in zip(params, orthogonalised(torch.stack(updates)), strict=True):
                    p.add_(update, alpha=-group["lr"] * stretch)
