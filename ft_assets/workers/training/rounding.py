"""AdamW for weights held in bfloat16, whose updates are rounded at random.

The steps between bfloat16 numbers are 2^-8 of a weight, and most updates are far smaller: rounding to nearest would
lose them. Stochastic rounding (https://arxiv.org/abs/2010.06192) rounds up with the probability of the part that is cut
off, so updates arrive in the mean. Moments are the same as beside float32 weights.

The generator of the random bits is seeded for each weight from the run's seed, the step and the weight's place. So a
resumed run draws the same bits as an uninterrupted one, and ranks that hold the same weights round alike.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable, Iterator
from hashlib import blake2b
from typing import Any

import torch
from torch.distributed.tensor import DTensor
from torch.optim.adamw import adamw

_AT_ONCE = 1 << 24
"""Numbers that are updated at once, in about 20 bytes each. A multiple of ``_BLOCK``."""
_BLOCK = 256
"""Moments in 8 bits that share a scale (bitsandbytes)."""


class Bits:
    """The random bits of a run; ``part`` is the number of the shard that this rank holds of each weight."""

    def __init__(self, seed: int, part: int = 0) -> None:
        self._seed, self._part = seed, part

    def of(self, step: int, place: int, device: torch.device) -> torch.Generator:
        """For the update of the weight at ``place`` in step ``step``."""
        text = f"{self._seed} {step} {place} {self._part}"
        seed = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1
        return torch.Generator(device).manual_seed(seed)


def round_at_random(values: torch.Tensor, bits: torch.Generator) -> torch.Tensor:
    """float32 ``values`` as bfloat16: each becomes one of its two neighbours, on average itself. Overwrites ``values``.

    A bfloat16 is the upper half of a float32, so random bits are added to the lower half, which is cut off.
    """
    drawn = torch.randint(0, 1 << 16, values.shape, dtype=torch.int32, device=values.device, generator=bits)
    whole = values.view(torch.int32).add_(drawn).bitwise_and_(-1 << 16)
    return whole.view(torch.float32).bfloat16()


class RoundedAdamW(torch.optim.Optimizer):
    """Takes over the groups of ``plain``, PyTorch's AdamW, over whole weights or shards of them."""

    def __init__(self, plain: torch.optim.Optimizer, bits: Bits) -> None:
        self._bits = bits
        super().__init__(plain.param_groups, {})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        assert closure is None
        weights = ((group, weight) for group in self.param_groups for weight in group["params"])
        for place, (group, weight) in enumerate(weights):
            if weight.grad is not None:
                self._update(group, weight, weight.grad, place)

    def _update(self, group: dict[str, Any], weight: torch.Tensor, gradient: torch.Tensor, place: int) -> None:
        state = self.state[weight]
        if not state:
            moments = {name: torch.zeros_like(weight, dtype=torch.float32) for name in ("exp_avg", "exp_avg_sq")}
            state.update(step=0, **moments)
        state["step"] += 1
        bits = self._bits.of(state["step"], place, weight.device)
        tensors = (weight, gradient, state["exp_avg"], state["exp_avg_sq"])
        for held, grad, first, second in zip(*(_pieces(each) for each in tensors), strict=True):
            exact = held.float()
            # The update increments it, and may need it on the device.
            before = torch.full((), float(state["step"] - 1), device=weight.device)
            adamw(
                [exact],
                [grad.float()],
                [first],
                [second],
                [],
                [before],
                fused=True,
                amsgrad=False,
                beta1=group["betas"][0],
                beta2=group["betas"][1],
                lr=group["lr"],
                weight_decay=group["weight_decay"],
                eps=group["eps"],
                maximize=False,
            )
            _put(held, exact, bits)

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """PyTorch's own would round the moments to the weights' format."""
        super().load_state_dict({**state_dict, "state": {}})
        weights = [weight for group in self.param_groups for weight in group["params"]]
        for index, values in state_dict["state"].items():
            device = weights[index].device
            self.state[weights[index]] = {
                name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in values.items()
            }


def round_in_8_bits(plain: Any, bits: Bits) -> None:
    """Let ``plain``, an AdamW8bit of bitsandbytes, round its updates of bfloat16 weights at random."""
    update = plain.update_step

    def updated(group: dict[str, Any], weight: torch.Tensor, gindex: int, pindex: int) -> None:
        if weight.dtype != torch.bfloat16:
            update(group, weight, gindex, pindex)
            return
        state = plain.state[weight]
        assert weight.grad is not None
        generator = bits.of(state["step"] + 1, (gindex << 32) + pindex, weight.device)
        places = range(0, weight.numel(), _AT_ONCE)
        for start, held, grad in zip(places, _pieces(weight), _pieces(weight.grad), strict=True):
            exact = held.float()
            exact.grad = grad.float()
            # The update looks the state up by the tensor, and counts the step.
            plain.state[exact] = {name: _piece_of(name, value, start) for name, value in state.items()}
            update(group, exact, gindex, pindex)
            after = plain.state.pop(exact)
            _put(held, exact, generator)
        state["step"] = after["step"]

    plain.update_step = updated


def _pieces(tensor: torch.Tensor) -> Iterator[torch.Tensor]:
    """Views of the numbers that this rank holds of ``tensor``, flat and at most ``_AT_ONCE`` long."""
    held = tensor.to_local() if isinstance(tensor, DTensor) else tensor
    yield from held.view(-1).split(_AT_ONCE)


def _piece_of(name: str, value: Any, start: int) -> Any:
    """The part of a state of bitsandbytes for the numbers from ``start`` on: moments, and a scale for each block."""
    each = {"state1": 1, "state2": 1, "absmax1": _BLOCK, "absmax2": _BLOCK}.get(name)
    return value if each is None else value.view(-1)[start // each : (start + _AT_ONCE) // each]


def _put(held: torch.Tensor, exact: torch.Tensor, bits: torch.Generator) -> None:
    held.copy_(round_at_random(exact, bits) if held.dtype == torch.bfloat16 else exact)
