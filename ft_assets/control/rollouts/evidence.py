"""Evidence from outcomes of a candidate and its incumbent, valid at any moment."""

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import Field

from ft_assets.control.rollouts.sequential import lower_bound, upper_bound
from ft_assets.records.outcomes import Outcome
from ft_assets.settings.rollout_settings import Kind
from ft_resources.strict_model import StrictModel

Arm = Literal["candidate", "incumbent"]
ERROR = 0.05
"""Error probability: that an equally good candidate is rolled back, and that one worse by its margin is completed."""


class Evidence(StrictModel):
    """One kind of outcome, as shares of good ones.

    Good is: a thumb up, the judge's score, a latency within the limit, no refusal, a valid format.
    """

    kind: Kind
    candidate: int = Field(ge=0, description="Outcomes of the candidate since the rollout began.")
    incumbent: int = Field(ge=0, description="Outcomes of the incumbent in that time.")
    in_stage: int = Field(ge=0, description="Outcomes of the candidate since its present weight.")
    candidate_good: float | None = Field(description="Mean of the candidate's; null without any.")
    incumbent_good: float | None = Field(description="Mean of the incumbent's; null without any.")
    least: float = Field(description="The difference was shown to be above this.")
    most: float = Field(description="The difference was shown to be below this.")
    margin: float = Field(gt=0, lt=1, description="A loss of this much is a regression.")

    @property
    def worse(self) -> bool:
        """Whether the candidate was shown to be worse."""
        return self.most < 0

    @property
    def as_good(self) -> bool:
        """Whether it was shown to lose less than the margin."""
        return self.least > -self.margin

    @property
    def sentence(self) -> str:
        if self.candidate_good is None or self.incumbent_good is None:
            return f"{self.kind}: {self.candidate} outcomes of the candidate, {self.incumbent} of the incumbent"
        return (
            f"{self.kind}: {self.candidate_good:.3f} good of {self.candidate}, "
            f"incumbent {self.incumbent_good:.3f} of {self.incumbent}; "
            f"the difference is within {self.least:+.3f} and {self.most:+.3f}"
        )


def good(outcome: Outcome, latency_limit_s: float | None) -> float:
    """How good an outcome is, from 0 to 1."""
    if outcome.kind == "latency":
        return float(latency_limit_s is None or outcome.value <= latency_limit_s)
    return 1.0 - outcome.value if outcome.kind == "refusal" else outcome.value


def differences(outcomes: Iterable[tuple[Arm, float]]) -> list[float]:
    """Differences of means, candidate less incumbent, of consecutive blocks of outcomes.

    A block ends as soon as both have an outcome in it. At a weight of 1 % that is one of the candidate and some hundred
    of the incumbent in the same time, so neither the hour of the day nor a change of the weight favours one of them.
    Where a block ends depends on whose outcomes arrive, not on their values.

    For c=1, i=0, i=1, c=0, c=1, i=1 the blocks are (c=1, i=0), (i=1, c=0), (c=1, i=1): 1, -1, 0.
    """
    found: list[float] = []
    block: dict[Arm, list[float]] = {"candidate": [], "incumbent": []}
    for arm, value in outcomes:
        block[arm].append(value)
        if all(block.values()):
            ours, theirs = block["candidate"], block["incumbent"]
            found.append(sum(ours) / len(ours) - sum(theirs) / len(theirs))
            block = {"candidate": [], "incumbent": []}
    return found


def weigh(
    outcomes: Sequence[tuple[Arm, Outcome]],
    *,
    margins: dict[Kind, float],
    latency_limit_s: float | None,
    stage_at: str,
    error: float = ERROR,
) -> list[Evidence]:
    """The evidence of each kind with a margin, from outcomes in order of time.

    The error of upper bounds is divided among the kinds, as any of them rolls back. Lower bounds use all of ``ERROR``,
    as completion needs every one of them.
    """
    found = []
    for kind, margin in margins.items():
        own = [(arm, outcome) for arm, outcome in outcomes if outcome.kind == kind]
        rated = [(arm, good(outcome, latency_limit_s)) for arm, outcome in own]
        ours = [value for arm, value in rated if arm == "candidate"]
        theirs = [value for arm, value in rated if arm == "incumbent"]
        in_stage = sum(arm == "candidate" and outcome.at >= stage_at for arm, outcome in own)
        blocks = differences(rated)
        found.append(evidence_of(kind, margin, ours, theirs, blocks, in_stage=in_stage, error=error / len(margins)))
    return found


def evidence_of(
    kind: Kind,
    margin: float,
    ours: Sequence[float],
    theirs: Sequence[float],
    differences: Sequence[float],
    *,
    in_stage: int,
    error: float,
) -> Evidence:
    """The evidence of one kind from how good the outcomes are; its upper bound errs in at most ``error``."""
    return Evidence(
        kind=kind,
        candidate=len(ours),
        incumbent=len(theirs),
        in_stage=in_stage,
        candidate_good=_mean(ours),
        incumbent_good=_mean(theirs),
        least=lower_bound(differences, ERROR) if differences else -1.0,
        most=upper_bound(differences, error) if differences else 1.0,
        margin=margin,
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
