"""The contract between the trainer and a method: additive parts of a step's loss."""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from numpy.typing import NDArray

from ft_assets.workers.packs.isolation.batches import MicroBatch
from ft_assets.workers.packs.isolation.forward import token_losses
from ft_assets.workers.training.ranks import Ranks
from ft_resources.errors import UserError


@dataclass(frozen=True, kw_only=True, slots=True)
class Whole:
    """Totals of an optimizer step over all micro-batches and ranks, by which its means divide.

    ``learned`` counts tokens, ``examples`` windows (pairs for preference data), each with the weight of its example if
    examples have weights; ``surveyed`` are the objective's own sums, computed beforehand: float64 [sums], on the
    device, as the host would have to wait for them.
    """

    learned: float
    examples: float
    surveyed: torch.Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """One micro-batch's part of a step.

    ``loss`` is a scalar with gradients; ``figures`` are scalars without. Both add up over micro-batches and ranks to
    the step's reported values, so neither the micro-batch size nor the number of ranks changes their meaning.
    """

    loss: torch.Tensor
    figures: Mapping[str, torch.Tensor] = field(default_factory=dict)


class WrongReference(UserError):
    """The reference differs from the policy's initial weights."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FirstLoss:
    """The loss before anything is learned, if it is known beforehand, and its rounding tolerance.

    ``zeros`` are figures that are 0 then, and their rounding tolerances.
    """

    value: float
    tolerance: float
    zeros: Mapping[str, float] = field(default_factory=dict)

    def require(self, figures: Mapping[str, float]) -> None:
        """Raise WrongReference unless ``figures`` of the first step (``loss`` and the objective's) match."""
        expected = {"loss": (self.value, self.tolerance), **{name: (0.0, room) for name, room in self.zeros.items()}}
        for name, (value, tolerance) in expected.items():
            if not abs(figures[name] - value) <= tolerance:
                raise WrongReference(
                    f"{name} of the first step is {figures[name]:.6g}, and before anything was learned it is "
                    f"{value:.6g} (rounding explains {tolerance:.1g}): the weights at hand are not those that the "
                    "reference's log-probabilities were computed with",
                    where="reference_logps",
                    remedy="Nothing was learned. Delete the manifest of this training's input reference_logps, so "
                    "that it is computed again, and start the training again. If the error persists, report which "
                    "base it was.",
                )


class Objective(ABC):
    """A method's training objective; ``params`` are the training's settings (``Recipe.training_settings``).

    ``figures`` names the figures of each ``Part`` besides the loss, in order. ``sums`` is how many sums over the whole
    step the parts depend on: then ``survey`` sees every micro-batch before any part is computed.
    """

    figures: tuple[str, ...] = ()
    sums = 0

    def __init__(self, params: Mapping[str, Any]) -> None:  # noqa: B027 -- most methods have no settings of their own
        pass

    @abstractmethod
    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None) -> Part:
        """The contribution of ``batch`` to the mean loss over ``whole``.

        ``reference`` has the reference's log-probability of each document, float32 [documents], for methods with a
        reference.
        """

    def first_loss(self, *, rough: bool) -> FirstLoss | None:
        """What a run's first step must report; None if that is not known.

        ``rough`` is arithmetic in half precision or on a GPU, where kernels choose their own order of sums.
        """
        return None

    def survey(self, model: Any, batch: MicroBatch, reference: NDArray[Any] | None) -> torch.Tensor:
        """The contribution of ``batch`` to sums over the whole step, float64 [sums]; called without gradients."""
        return torch.zeros(self.sums, dtype=torch.float64)


@torch.no_grad()
def surveyed(
    objective: Objective,
    model: Any,
    read: Iterable[tuple[MicroBatch, NDArray[Any] | None]],
    whole: Whole,
    ranks: Ranks,
    device: torch.device,
) -> Whole:
    """``whole`` with the objective's sums over the micro-batches of ``read`` and all ranks; unchanged, and ``read`` not
    used, if it has none."""
    if not objective.sums:
        return whole
    total = torch.zeros(objective.sums, dtype=torch.float64, device=device)
    for batch, reference in read:
        if batch.learned:
            total += objective.survey(model, batch.to(device), reference)
        elif not ranks.alone:
            # All ranks gather a sharded model for each forward pass.
            token_losses(model, batch.to(device))
    return replace(whole, surveyed=ranks.total(total))
