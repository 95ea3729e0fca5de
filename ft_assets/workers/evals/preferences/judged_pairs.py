"""Candidate against base in the eyes of judges, prompt by prompt, and what of it is kept."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ft_assets.evals.agreement import Agreement, agreement
from ft_assets.evals.evidence import JudgedEvidence
from ft_assets.evals.preferences.judge import PROSE, Judge, Judgement
from ft_assets.evals.preferences.prompt import judge_prompt, parse_verdict, preference
from ft_assets.evals.preferences.saved import SavedJudgements
from ft_assets.evals.samples import write_suite_samples
from ft_resources.canonical import digest

# Names of the samples' files: of the judge that counts, and of the second.
SAMPLES = ("judge", "judge_second")
Order = Literal["candidate_first", "base_first"]
# With each order, which answer is the candidate's.
ORDERS: dict[Order, Literal["A", "B"]] = {"candidate_first": "A", "base_first": "B"}
Report = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """A prompt with what both answered; ``conversation`` as (role, text)."""

    id: str
    conversation: tuple[tuple[str, str], ...]
    base: str
    candidate: str

    @property
    def digest(self) -> str:
        """SHA-256 that names the prompt without its text."""
        return digest([list(turn) for turn in self.conversation])

    @property
    def alike(self) -> bool:
        """Whether both said the same: a tie that nobody needs to be asked about."""
        return self.base == self.candidate

    def message(self, order: Order, seed: int) -> str:
        """What a judge is asked, with the answers in this order."""
        both = (self.candidate, self.base) if order == "candidate_first" else (self.base, self.candidate)
        return judge_prompt(self.conversation, *both, seed=seed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """What one judge said to a contest in each order; nothing where both answers are alike."""

    contest: Contest
    said: dict[Order, Judgement]

    def preference(self, order: Order) -> float | None:
        """1 where the candidate is preferred, 0.5 for a tie, 0 where the base is, None without a verdict."""
        if self.contest.alike:
            return 0.5
        judgement = self.said[order]
        return None if judgement.problem else preference(judgement.text, ORDERS[order])

    @property
    def win(self) -> float | None:
        """The mean of both orders; a judge that contradicts itself has said nothing, which is a tie."""
        first, second = self.preference("candidate_first"), self.preference("base_first")
        return None if first is None or second is None else (first + second) / 2

    @property
    def result(self) -> str:
        """``win``, ``tie`` or ``loss`` of the candidate, or ``none``."""
        if self.win is None:
            return "none"
        return "win" if self.win > 0.5 else "loss" if self.win < 0.5 else "tie"

    def problem(self, order: Order) -> str:
        """Why there is no verdict, "" where there is one."""
        if self.preference(order) is not None:
            return ""
        return self.said[order].problem or PROSE

    def verdict(self, order: Order) -> str:
        """A, B or tie as the judge said it, "" where it said none or was not asked."""
        if self.contest.alike or self.said[order].problem:
            return ""
        return parse_verdict(self.said[order].text) or ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferences:
    """All that one judge said. ``judge`` names it for people."""

    judge: str
    judged: Sequence[Judged]

    def evidence(self) -> JudgedEvidence:
        """The counts that a report states, and that its samples give again."""
        results = Counter(each.result for each in self.judged)
        problems = Counter(
            next(filter(None, (each.problem(order) for order in ORDERS)))
            for each in self.judged
            if each.result == "none"
        )
        asked = [each for each in self.judged if not each.contest.alike and each.win is not None]
        return JudgedEvidence(
            judge=self.judge,
            n=len(self.judged),
            wins=results["win"],
            ties=results["tie"],
            losses=results["loss"],
            alike=sum(each.contest.alike for each in self.judged),
            contradictions=sum(each.preference("candidate_first") != each.preference("base_first") for each in asked),
            problems=dict(sorted(problems.items())),
        )

    def write(self, path: Path) -> None:
        """One row a prompt, with what was answered and what the judge said, so that every count can be audited."""
        judged = self.judged
        columns: dict[str, list[Any]] = {
            "prompt_digest": [each.contest.digest for each in judged],
            "base_answer": [each.contest.base for each in judged],
            "candidate_answer": [each.contest.candidate for each in judged],
            "alike": [each.contest.alike for each in judged],
        }
        for order in ORDERS:
            columns[order] = [each.preference(order) for each in judged]
            columns[f"{order}_verdict"] = [each.verdict(order) for each in judged]
            columns[f"{order}_problem"] = [each.problem(order) for each in judged]
            columns[f"{order}_said"] = ["" if each.contest.alike else each.said[order].text for each in judged]
        write_suite_samples(path, [each.contest.id for each in judged], **columns)


def judge_contests(
    name: str, judge: Judge, contests: Sequence[Contest], saved: SavedJudgements, *, seed: int, report: Report
) -> Preferences:
    """Ask ``judge`` about every contest in both orders; what ``saved`` knows is not asked again.

    Args:
        report: called with (judgements there, judgements in all).

    Raises what ``Judge.ask`` raises; what was judged until then is saved.
    """
    places: list[tuple[Contest, Order]] = [(each, order) for each in contests if not each.alike for order in ORDERS]
    messages = [contest.message(order, seed) for contest, order in places]
    found = {number: known for number, message in enumerate(messages) if (known := saved.find(message)) is not None}
    open_ = [number for number in range(len(messages)) if number not in found]

    def keep(place: int, judgement: Judgement) -> None:
        saved.keep(messages[open_[place]], judgement)
        found[open_[place]] = judgement
        report(len(found), len(messages))

    judge.ask([messages[number] for number in open_], keep)
    said: dict[str, dict[Order, Judgement]] = {}
    for number, (contest, order) in enumerate(places):
        said.setdefault(contest.id, {})[order] = found[number]
    return Preferences(judge=name, judged=[Judged(contest=each, said=said.get(each.id, {})) for each in contests])


def agreement_of(judges: Sequence[Preferences]) -> Agreement | None:
    """How far two judges say the same (win, tie or loss) of the prompts that both were asked about and judged."""
    if len(judges) < 2:
        return None
    pairs = [
        (first.result, second.result)
        for first, second in zip(judges[0].judged, judges[1].judged, strict=True)
        if not first.contest.alike and "none" not in (first.result, second.result)
    ]
    return agreement([first for first, _ in pairs], [second for _, second in pairs])
