"""Counts of a judge's verdicts on copied requests."""

from collections import Counter
from collections.abc import Sequence

from ft_assets.records.shadow_verdicts import ShadowVerdict, lines_with_verdicts, read_verdicts
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel


class JudgedCopies(StrictModel):
    """Pairs of answers by the judge's verdict; ``problems`` has those without one, by the reason.

    ``cost`` is what they cost at most. ``trouble`` says when the judge was not reached, and why, where that was its
    last news. ``withdrawn`` says why it may not be asked any more, if so.
    """

    judge: str
    wins: int
    ties: int
    losses: int
    problems: dict[str, int]
    cost: float
    trouble: str
    withdrawn: str = ""

    @property
    def sentence(self) -> str:
        told = f"{self.judge} judged copies: {self.wins} won by the candidate, {self.ties} tied, {self.losses} lost"
        if self.problems:
            reasons = ", ".join(f"{reason}: {number}" for reason, number in self.problems.items())
            told += f", {sum(self.problems.values())} without a verdict ({reasons})"
        if self.cost:
            told += f"; cost at most {self.cost:.2f}"
        if self.withdrawn:
            return f"{told}; judge disabled: {self.withdrawn}"
        return f"{told}; judge unreachable {self.trouble}" if self.trouble else told


def count_verdicts(judge: str, verdicts: Sequence[ShadowVerdict]) -> JudgedCopies:
    """The count of ``verdicts``, which are in order of time."""
    results = Counter(each.result for each in verdicts)
    last = verdicts[-1] if verdicts else None
    return JudgedCopies(
        judge=judge,
        wins=results["won"],
        ties=results["tied"],
        losses=results["lost"],
        problems=dict(sorted(Counter(each.problem for each in verdicts if each.result == "none").items())),
        cost=sum(each.cost for each in verdicts),
        trouble=f"at {last.at[:16]}: {last.problem}" if last is not None and last.again else "",
    )


def results_on(store: Store, day: str, problems: list[str]) -> Counter[tuple[str, str]]:
    """Number of verdicts on a day (ISO 8601), by tenant and result; unreadable records are added to ``problems``."""
    found: Counter[tuple[str, str]] = Counter()
    for tenant in store.tenants():
        for line in lines_with_verdicts(store, tenant):
            try:
                found.update((tenant, each.result) for each in read_verdicts(store, line, day, f"{day}T24"))
            except CorruptArtifact as error:
                problems.append(str(error))
    return found
