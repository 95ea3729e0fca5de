"""The blast radius of a base bump: what depends on the base, what passed, what is retrained."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from ft_assets.control.base_bumps.plan import Progress, Standing, Step


@dataclass(frozen=True, kw_only=True)
class Row:
    """One dependent: ``now`` is the adapter that passed, ``reason`` is why it failed or is left out."""

    line: str
    dataset: str
    before: str
    step: str
    now: str
    reason: str


def rows(standings: Iterable[Standing]) -> list[Row]:
    """One row per dependent, by line and dataset version."""
    found = [
        Row(
            line=each.dependent.line,
            dataset=each.dependent.dataset,
            before=each.dependent.adapter.address,
            step=words(each),
            now=each.adapter,
            reason=each.reason,
        )
        for each in standings
    ]
    return sorted(found, key=lambda row: (row.line, row.dataset))


def summary(standings: Iterable[Standing]) -> str:
    """Such as ``3 dependents: 2 passed (carried), 1 being retrained``."""
    counted = Counter(words(each) for each in standings)
    parts = ", ".join(f"{count} {step}" for step, count in sorted(counted.items()))
    return f"{counted.total()} dependents" + (f": {parts}" if parts else "")


def words(standing: Standing) -> str:
    """A dependent's state in words, including how it passed."""
    if standing.step is not Step.PASSED:
        return str(standing.step)
    return "passed (carried)" if standing.carry is Progress.PASSED else "passed (retrained)"
