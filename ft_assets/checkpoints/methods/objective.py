"""The contract between the trainer and a method: parts of a step's loss that simply add up."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from numpy.typing import NDArray

from ft_assets.packs.isolation.batches import MicroBatch
from ft_resources.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """What an optimizer step reads over all micro-batches and ranks: the denominators of its means.

    ``learned`` counts tokens, ``examples`` windows (of preference data, pairs).
    """

    learned: int
    examples: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One micro-batch's part of a step.

    ``loss`` is a scalar with gradients; ``figures`` are scalars without. Both add up over micro-batches and ranks to
    what the step reports, so neither the size of a micro-batch nor the number of ranks changes their meaning.
    """

    loss: torch.Tensor
    figures: Mapping[str, torch.Tensor] = field(default_factory=dict)


class WrongReference(UserError):
    """What the policy is compared with is not what it begins as."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstLoss:
    """The loss before anything was learned, where it is known beforehand, and how far rounding may move it.

    ``zeros`` are figures that are 0 then, and how far rounding may move those.
    """

    value: float
    tolerance: float
    zeros: Mapping[str, float] = field(default_factory=dict)

    def require(self, figures: Mapping[str, float]) -> None:
        """Raise WrongReference unless ``figures`` of the first step (``loss`` and the objective's) are these."""
        expected = {"loss": (self.value, self.tolerance), **{name: (0.0, room) for name, room in self.zeros.items()}}
        for name, (value, tolerance) in expected.items():
            if not abs(figures[name] - value) <= tolerance:
                raise WrongReference(
                    f"{name} of the first step is {figures[name]:.6g}, and before anything was learned it is "
                    f"{value:.6g} (rounding explains {tolerance:.1g}): the weights at hand are not those that the "
                    "reference's log-probabilities were computed with",
                    where="reference_logps",
                    remedy="Nothing was learned. Delete the manifest of this training's input reference_logps, so "
                    "that it is computed again, and start the training anew. If it comes out the same, tell us which "
                    "base it was.",
                )


class Objective(Protocol):
    """What is minimised. ``figures`` names what each ``Part`` reports beside the loss, in order."""

    figures: tuple[str, ...]

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None) -> Part:
        """The loss of ``batch`` as its part of the mean over ``whole``.

        ``reference`` has the reference's log-probability of each document, float32 [documents], for the methods that
        compare with one.
        """
        ...

    def first_loss(self, *, rough: bool) -> FirstLoss | None:
        """What a run's first step has to report; None where nobody can know.

        ``rough`` is arithmetic in half precision or on a GPU, where kernels choose their own order of sums.
        """
        ...
