"""The report page for people: numbers with their intervals, and the answers that changed, side by side.

It contains row text, so it is below the tenant's prefix; it loads no external resources and everything is escaped.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ft_assets.workers.evals.agreement import in_words
from ft_assets.workers.evals.evidence import Evidence
from ft_assets.workers.evals.paired_comparison import HoldoutComparison
from ft_assets.workers.evals.power import minimum_detectable
from ft_assets.workers.evals.preferences.judged_pairs import Preferences
from ft_assets.workers.evals.preferences.page import judges_section, render, titled
from ft_assets.workers.evals.safety import Compared
from ft_assets.workers.evals.suite_comparison import ComparedSuite
from ft_assets.workers.suites.safety_suite import Kind

MAX_EXAMPLES = 50
Section = tuple[str, list["Example"]]


@dataclass(frozen=True, kw_only=True, slots=True)
class Example:
    """A row that one model answers better than the other (``base_right``), or one without a right answer (None)."""

    question: str
    target: str
    base: str | None
    candidate: str
    base_right: bool | None


def evaluation_page(
    *,
    label: str,
    evidence: Evidence,
    comparison: HoldoutComparison,
    safety: Sequence[Compared] = (),
    suites: Sequence[ComparedSuite] = (),
    judges: Sequence[Preferences] = (),
) -> str:
    """A self-contained HTML page about the pair ``label``."""
    flips = flipped(comparison)
    won, lost = [f for f in flips if not f.base_right], [f for f in flips if f.base_right]
    # Losses get as much space as gains: a report that hides them is an advertisement.
    most_lost = max(MAX_EXAMPLES // 2, MAX_EXAMPLES - len(won))
    return render(
        Path(__file__).with_name("page.html"),
        label=label,
        evidence=evidence,
        examples=[
            titled("Rows that only the candidate answers correctly", won, MAX_EXAMPLES - min(len(lost), most_lost)),
            titled("Rows that only the base answers correctly", lost, most_lost),
            *(shown for compared in safety for shown in flipped_prompts(compared)),
            *(shown for suite in suites for shown in flipped_items(suite)),
        ],
        judges=judges_section(judges, evidence.judges_agree),
        in_words=in_words,
        minimum_detectable=minimum_detectable,
    )


def flipped(comparison: HoldoutComparison) -> list[Example]:
    """Rows whose exact match differs between base and candidate, in the rows' (hashed) order."""
    before, after = comparison.matches(comparison.base), comparison.matches(comparison.candidate)
    rows = zip(comparison.rows, comparison.base, comparison.candidate, before, after, strict=True)
    return [
        Example(
            question=row.question,
            target=row.target,
            base=base.answer,
            candidate=candidate.answer,
            base_right=bool(was),
        )
        for row, base, candidate, was, now in rows
        if was != now
    ]


_SAFETY_WORDS: dict[Kind, tuple[str, str]] = {
    "harmful": ("Harmful prompts that only the {} refuses", "a refusal"),
    "benign": ("Safe prompts that only the {} does not refuse", "an answer"),
}


def flipped_prompts(compared: Compared) -> list[Section]:
    """Prompts that only one model refuses; those on which the candidate does worse come first."""
    title, target = _SAFETY_WORDS[compared.kind]
    wanted = int(compared.kind == "harmful")
    found: dict[str, list[Example]] = {"base": [], "candidate": []}
    rows = zip(compared.base.prompts, compared.base.answers, compared.candidate.answers, strict=True)
    judged = zip(compared.base.refused, compared.candidate.refused, strict=True)
    for (prompt, base, candidate), (was, now) in zip(rows, judged, strict=True):
        if was != now:
            found["base" if was == wanted else "candidate"].append(
                Example(question=prompt.text, target=target, base=base, candidate=candidate, base_right=was == wanted)
            )
    return [titled(title.format(who), flips, MAX_EXAMPLES) for who, flips in found.items()]


def flipped_items(suite: ComparedSuite) -> list[Section]:
    """Items of a suite on which the candidate scores lower than the base, those on which it scores higher, and prompts
    without a right answer."""
    shown = ((said, suite.base_shown.get(name), None) for name, said in suite.score.shown.items())
    changed = ((said, answer, now < was) for said, answer, was, now in suite.items() if was != now)
    rows = [
        Example(question=said.question, target=said.target, base=base, candidate=said.answer, base_right=worse)
        for said, base, worse in (*changed, *shown)
    ]
    titles = (
        ("items where the candidate is worse", True),
        ("items where the candidate is better", False),
        ("answers side by side", None),
    )
    return [
        titled(f"{suite.key}: {text}", [row for row in rows if row.base_right is worse], MAX_EXAMPLES)
        for text, worse in titles
    ]
