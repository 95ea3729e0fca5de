"""What a judge said of copied requests, counted."""

from collections import Counter
from collections.abc import Sequence

from ft_assets.records.shadow_verdicts import ShadowVerdict
from ft_resources.strict_model import StrictModel


class JudgedCopies(StrictModel):
    """Pairs of answers by the judge's verdict; ``problems`` has those without one, by the reason.

    ``cost`` is what they cost at most. ``trouble`` says when the judge was not reached, and why, where that was its
    last news.
    """

    judge: str
    wins: int
    ties: int
    losses: int
    problems: dict[str, int]
    cost: float
    trouble: str

    @property
    def sentence(self) -> str:
        told = f"{self.judge} judged copies: {self.wins} won by the candidate, {self.ties} tied, {self.losses} lost"
        if self.problems:
            reasons = ", ".join(f"{reason}: {number}" for reason, number in self.problems.items())
            told += f", {sum(self.problems.values())} without a verdict ({reasons})"
        if self.cost:
            told += f"; cost at most {self.cost:.2f}"
        return f"{told}; not reached {self.trouble}" if self.trouble else told


def count_verdicts(judge: str, verdicts: Sequence[ShadowVerdict]) -> JudgedCopies:
    """The count of ``verdicts``, which are in order of time."""
    wins = [each.win for each in verdicts if each.win is not None]
    last = verdicts[-1] if verdicts else None
    return JudgedCopies(
        judge=judge,
        wins=sum(win > 0.5 for win in wins),
        ties=sum(win == 0.5 for win in wins),
        losses=sum(win < 0.5 for win in wins),
        problems=dict(sorted(Counter(each.problem for each in verdicts if each.problem and not each.again).items())),
        cost=sum(each.cost for each in verdicts),
        trouble=f"at {last.at[:16]}: {last.problem}" if last is not None and last.again else "",
    )
