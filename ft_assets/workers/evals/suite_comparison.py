"""General suites of both models, paired item by item: the base's from its report, the candidate's new."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ft_assets.workers.evals.evidence import AlsoEvidence, SuiteEvidence
from ft_assets.workers.evals.paired_comparison import compare_suite
from ft_assets.workers.evals.samples import ITEM_ID, SCORE, parse_samples, read_suite_samples, write_suite_samples
from ft_assets.workers.suites.score import Said, SuiteScore
from ft_resources.artifacts import Artifact
from ft_resources.errors import UserError
from ft_resources.worker_context import WorkContext

ANSWER = "answer"


def asked_suites(context: WorkContext) -> dict[str, Artifact]:
    """The suites among a worker's inputs that are asked in the same way, by key: general ones, and those only shown."""
    return {**context.inputs("suite:"), **context.inputs("shown:")}


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedSuite:
    """One suite: the evidence, the candidate's score, and the base's scores and answers, in the score's order.

    ``evidence`` is None for a suite without right answers; ``base_shown`` are the base's answers to prompts without a
    right answer, by their ids.
    """

    key: str
    evidence: SuiteEvidence | None
    score: SuiteScore
    base: tuple[float, ...]
    base_answers: tuple[str | None, ...]
    base_shown: Mapping[str, str] = field(default_factory=dict)

    def items(self) -> Iterator[tuple[Said, str | None, float, float]]:
        """For each item its texts, the base's answer, the base's score and the candidate's."""
        yield from zip(self.score.said, self.base_answers, self.base, self.score.correct, strict=True)

    def write(self, folder: Path) -> None:
        """One row per item; questions and right answers stay in the suite."""
        if self.evidence is not None:
            write_suite_samples(
                folder / "samples" / f"{self.key}.parquet",
                self.score.item_ids,
                base=self.base,
                candidate=self.score.correct,
                base_answer=self.base_answers,
                candidate_answer=[said.answer for said in self.score.said],
            )
        if self.score.shown:
            write_suite_samples(
                folder / "samples" / f"{self.key}-shown.parquet",
                tuple(self.score.shown),
                base_answer=[self.base_shown.get(name) for name in self.score.shown],
                candidate_answer=[said.answer for said in self.score.shown.values()],
            )


def write_base(folder: Path, scores: Mapping[str, SuiteScore]) -> dict[str, dict[str, Any]]:
    """Save a base's scores and answers as samples; returns each suite's metric, value, n, and what else is
    to be told."""
    facts: dict[str, dict[str, Any]] = {}
    for key, score in scores.items():
        if score.n:
            facts[key] = {"metric": score.metric, "value": score.value, "n": score.n}
            facts[key] |= {"also": score.also} if score.also else {}
            facts[key] |= {"through_template": True} if score.through_template else {}
            answers = {ANSWER: [said.answer for said in score.said]} if score.said else {}
            path = folder / "samples" / f"{key}.parquet"
            write_suite_samples(path, score.item_ids, **{SCORE: score.correct}, **answers)
        if score.shown:
            said = [each.answer for each in score.shown.values()]
            write_suite_samples(folder / "samples" / f"{key}-shown.parquet", tuple(score.shown), answer=said)
    return facts


def compare_suites(
    baseline: Artifact, scores: Mapping[str, SuiteScore], scratch: Path, *, seed: int
) -> list[ComparedSuite]:
    """Each suite's items paired with the baseline's. Raises UserError if the items differ, or how they were asked."""
    facts = baseline.read_json("report.json").get("scores", {})
    compared = []
    for key, score in scores.items():
        evidence: SuiteEvidence | None = None
        base: tuple[float, ...] = ()
        answers: tuple[str | None, ...] = ()
        if score.n:
            ids, columns = read_suite_samples(baseline.path(f"samples/{key}.parquet", scratch))
            told = facts.get(key, {})
            base, also = columns[SCORE], told.get("also", {})
            if told.get("through_template", False) != score.through_template:
                raise UserError(
                    "only one of the baseline and the candidate was asked through the chat template",
                    where=f"suite {key}",
                    remedy="Materialize baseline_report for this recipe again, then eval_report.",
                )
            # Old baselines have no answers.
            answers = columns.get(ANSWER, (None,) * len(ids))
            evidence = compare_suite(key, score.metric, (ids, base), (score.item_ids, score.correct), seed=seed)
            further = {name: AlsoEvidence(base=also.get(name), candidate=value) for name, value in score.also.items()}
            told_too = {"also": further, "through_template": score.through_template}
            evidence = evidence.model_copy(update=told_too)
        shown = _shown(baseline, key)
        compared.append(
            ComparedSuite(key=key, evidence=evidence, score=score, base=base, base_answers=answers, base_shown=shown)
        )
    return compared


def _shown(baseline: Artifact, key: str) -> dict[str, str]:
    name = f"samples/{key}-shown.parquet"
    if name not in baseline.manifest.files:
        return {}
    columns = parse_samples(baseline.read(name), name)
    return dict(zip(columns[ITEM_ID], columns[ANSWER], strict=True))
