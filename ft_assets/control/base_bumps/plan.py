"""What a base bump does next: a pure plan over its dependents and the states of their submissions."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ft_assets.control.base_bumps.bump import Dependent


class Progress(StrEnum):
    """State of a submission; ``none``: not submitted."""

    NONE = "none"
    OPEN = "open"
    PASSED = "passed"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Step(StrEnum):
    """State of a dependent; the last four are final."""

    CARRY = "to be carried"
    CARRYING = "being carried"
    RETRAIN = "to be retrained"
    RETRAINING = "being retrained"
    PASSED = "passed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LEFT_OUT = "left out"


_OF_TRAINING = {
    Progress.OPEN: Step.RETRAINING,
    Progress.FAILED: Step.FAILED,
    Progress.CANCELLED: Step.CANCELLED,
}
ENDS = frozenset({Step.PASSED, Step.FAILED, Step.CANCELLED, Step.LEFT_OUT})


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A dependent and its state; ``reason`` is why it failed or is left out, ``adapter`` the adapter that passed.

    ``deleted``: its dataset version, adapter or tenant has a tombstone, or the version is retired. ``training`` is the
    state of the first training submitted.
    """

    dependent: Dependent
    carriable: bool = True
    carry: Progress = Progress.NONE
    training: Progress = Progress.NONE
    deleted: bool = False
    adapter: str = ""
    reason: str = ""

    @property
    def step(self) -> Step:
        """The dependent's state. An acceptance is final; otherwise a training takes precedence over a carry."""
        if Progress.PASSED in (self.carry, self.training):
            return Step.PASSED
        if self.deleted:
            return Step.LEFT_OUT
        if self.training is not Progress.NONE:
            return _OF_TRAINING[self.training]
        if self.carry is Progress.CANCELLED:
            return Step.CANCELLED
        if self.carry is Progress.OPEN:
            return Step.CARRYING
        return Step.CARRY if self.carriable and self.carry is Progress.NONE else Step.RETRAIN


@dataclass(frozen=True, kw_only=True)
class BumpPlan:
    """What to submit now, how many wait for tomorrow's budget, and whether the bump is complete."""

    carry: tuple[Dependent, ...]
    retrain: tuple[Dependent, ...]
    held: int
    over: bool


def plan_bump(standings: Iterable[Standing], *, most_open: int, budget: int) -> BumpPlan:
    """At most ``most_open`` carries are open at a time, and at most ``budget`` trainings are submitted. Pure; the order
    of ``standings`` does not matter."""
    ordered = sorted(standings, key=lambda each: (each.dependent.dataset, each.dependent.recipe))
    by_step = {step: [each.dependent for each in ordered if each.step is step] for step in Step}
    free = max(0, most_open - len(by_step[Step.CARRYING]))
    wanted, allowed = by_step[Step.RETRAIN], max(0, budget)
    return BumpPlan(
        carry=tuple(by_step[Step.CARRY][:free]),
        retrain=tuple(wanted[:allowed]),
        held=len(wanted[allowed:]),
        over=all(each.step in ENDS for each in ordered),
    )
