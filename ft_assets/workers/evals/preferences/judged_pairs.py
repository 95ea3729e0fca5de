"""Candidate against base as judged prompt by prompt, and the samples kept of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ft_assets.workers.evals.agreement import Agreement, agreement
from ft_assets.workers.evals.asking import Report
from ft_assets.workers.evals.evidence import JudgedEvidence
from ft_assets.workers.evals.preferences.judge import PROSE, Judge, Judgement
from ft_assets.workers.evals.preferences.marks import WELL_KNOWN, Marks
from ft_assets.workers.evals.preferences.prompt import ORDERS, Order, judge_prompt, parse_verdict, preference
from ft_assets.workers.evals.preferences.remeasured import count
from ft_assets.workers.evals.preferences.saved import SavedJudgements
from ft_assets.workers.evals.samples import write_suite_samples
from ft_resources.canonical import digest

# File names of the samples: of the judge that counts, and of the second.
SAMPLES = ("judge", "judge_second")


@dataclass(frozen=True, kw_only=True, slots=True)
class Contest:
    """A prompt with both models' answers; ``conversation`` as (role, text)."""

    id: str
    conversation: tuple[tuple[str, str], ...]
    base: str
    candidate: str

    @property
    def digest(self) -> str:
        """SHA-256 that identifies the prompt without its text."""
        return digest([list(turn) for turn in self.conversation])

    @property
    def alike(self) -> bool:
        """Whether both answers are the same: a tie, without asking a judge."""
        return self.base == self.candidate

    def message(self, order: Order, seed: int, marks: Marks) -> str:
        """The message to a judge, with the answers in this order."""
        both = (self.candidate, self.base) if order == "candidate_first" else (self.base, self.candidate)
        return judge_prompt(self.conversation, *both, seed=seed, marks=marks)


@dataclass(frozen=True, kw_only=True, slots=True)
class Judged:
    """One judge's judgements on a contest in each order; none if both answers are alike."""

    contest: Contest
    said: dict[Order, Judgement]

    def preference(self, order: Order) -> float | None:
        """1 if the candidate is preferred, 0.5 for a tie, 0 if the base is, None without a verdict."""
        if self.contest.alike:
            return 0.5
        judgement = self.said[order]
        return None if judgement.problem else preference(judgement.text, ORDERS[order])

    @property
    def win(self) -> float | None:
        """The mean of both orders; a judge that contradicts itself counts as a tie."""
        first, second = self.preference("candidate_first"), self.preference("base_first")
        return None if first is None or second is None else (first + second) / 2

    @property
    def result(self) -> str:
        """``win``, ``tie`` or ``loss`` of the candidate, or ``none`` without a verdict."""
        if self.win is None:
            return "none"
        return "win" if self.win > 0.5 else "loss" if self.win < 0.5 else "tie"

    def problem(self, order: Order) -> str:
        """Why there is no verdict, "" if there is one."""
        if self.preference(order) is not None:
            return ""
        return self.said[order].problem or PROSE

    def verdict(self, order: Order) -> str:
        """The judge's verdict: A, B or tie; "" if it gave none or was not asked."""
        if self.contest.alike or self.said[order].problem:
            return ""
        return parse_verdict(self.said[order].text) or ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Preferences:
    """All judgements of one judge. ``judge`` is its display name."""

    judge: str
    judged: Sequence[Judged]

    def columns(self) -> dict[str, tuple[Any, ...]]:
        """One value for each prompt, with both answers and the judge's replies, so that every count can be audited."""
        judged = self.judged
        columns: dict[str, Sequence[Any]] = {
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
        return {name: tuple(values) for name, values in columns.items()}

    def evidence(self) -> JudgedEvidence:
        """The counts in a report."""
        return count(self.judge, self.columns())

    def write(self, path: Path) -> None:
        write_suite_samples(path, [each.contest.id for each in self.judged], **self.columns())


def judge_contests(
    name: str,
    judge: Judge,
    contests: Sequence[Contest],
    saved: SavedJudgements | None,
    *,
    seed: int,
    report: Report,
    marks: Marks = WELL_KNOWN,
) -> Preferences:
    """Ask ``judge`` about every contest in both orders; judgements in ``saved`` are reused.

    Args:
        saved: None where each contest is judged once.
        report: called with (judgements done, judgements in all).
        marks: of the models' templates, and of the judge's; taken from all that it reads.

    Raises what ``Judge.ask`` raises; judgements made until then are saved.
    """
    places: list[tuple[Contest, Order]] = [(each, order) for each in contests if not each.alike for order in ORDERS]
    messages = [contest.message(order, seed, marks) for contest, order in places]
    known = {number: saved.find(message) for number, message in enumerate(messages)} if saved else {}
    found = {number: judgement for number, judgement in known.items() if judgement is not None}
    open_ = [number for number in range(len(messages)) if number not in found]

    def keep(place: int, judgement: Judgement) -> None:
        if saved is not None:
            saved.keep(messages[open_[place]], judgement)
        found[open_[place]] = judgement
        report(len(found), len(messages))

    judge.ask([messages[number] for number in open_], keep)
    said: dict[str, dict[Order, Judgement]] = {}
    for number, (contest, order) in enumerate(places):
        said.setdefault(contest.id, {})[order] = found[number]
    return Preferences(judge=name, judged=[Judged(contest=each, said=said.get(each.id, {})) for each in contests])


def agreement_of(judges: Sequence[Preferences]) -> Agreement | None:
    """Agreement of two judges (win, tie or loss) on the prompts that both judged."""
    if len(judges) < 2:
        return None
    pairs = [
        (first.result, second.result)
        for first, second in zip(judges[0].judged, judges[1].judged, strict=True)
        if not first.contest.alike and "none" not in (first.result, second.result)
    ]
    return agreement([first for first, _ in pairs], [second for _, second in pairs])
