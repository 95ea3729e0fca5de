"""The decision about a rollout from its evidence: a pure function."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ft_assets.control.rollouts.evidence import Evidence
from ft_assets.control.rollouts.rollouts import WHOLE, Rollout

Action = Literal["wait", "advance", "complete", "completed", "roll_back", "cancel"]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Facts besides the evidence.

    Args:
        production: address of the adapter in production, empty for none.
        obstacle: why the candidate may not be served any more, empty if it may.
    """

    production: str
    obstacle: str = ""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What to do, and why. ``complete`` asks for the promotion, ``completed`` says that it was made."""

    action: Action
    reason: str


def decide(rollout: Rollout, evidence: Sequence[Evidence], situation: Situation) -> Verdict:
    """What to do with an open rollout.

    A candidate shown to be worse in any kind of outcome is rolled back at once. It gets more traffic once it has the
    minimum of outcomes at the present weight. It goes to production only once it is shown to be as good in every kind.
    """
    last = rollout.last
    if situation.production == last.candidate.address:
        return Verdict(action="completed", reason="the candidate is in production")
    if situation.production != last.incumbent.address:
        stands = situation.production or "no adapter"
        return Verdict(action="cancel", reason=f"production was changed in the meantime: it now has {stands}")
    if situation.obstacle:
        return Verdict(action="roll_back", reason=situation.obstacle)
    worse = [each.sentence for each in evidence if each.worse]
    if worse:
        return Verdict(action="roll_back", reason=f"significantly worse than the incumbent: {'; '.join(worse)}")
    minimum = last.plan.minimum
    stage = f"of {last.plan.shadow} % of requests, copied" if last.shadowing else f"at {last.weight} %"
    short = [f"{each.kind}: {each.in_stage} of {minimum}" for each in evidence if each.in_stage < minimum]
    if short:
        return Verdict(action="wait", reason=f"outcomes of the candidate {stage}: {', '.join(short)}")
    if rollout.next_step < WHOLE:
        return Verdict(action="advance", reason=f"at least {minimum} outcomes {stage}, none significantly worse")
    undecided = [each.sentence for each in evidence if not each.as_good]
    if undecided:
        return Verdict(action="wait", reason=f"not yet proved to be within the margin: {'; '.join(undecided)}")
    return Verdict(action="complete", reason="; ".join(each.sentence for each in evidence))
