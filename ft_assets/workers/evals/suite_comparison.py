"""General suites of both models: the base's as its report keeps them, the candidate's beside them, item by item."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ft_assets.evals.comparison import compare_suite
from ft_assets.evals.evidence import AlsoEvidence, SuiteEvidence
from ft_assets.evals.samples import ITEM_ID, SCORE, parse_samples, read_suite_samples, write_suite_samples
from ft_assets.evals.score import Said, SuiteScore
from ft_resources.artifacts import Artifact
from ft_resources.worker_context import WorkContext

ANSWER = "answer"


def asked_suites(context: WorkContext) -> dict[str, Artifact]:
    """The suites among a worker's inputs that are asked alike, by key: general ones, and those only shown."""
    return {**context.inputs("suite:"), **context.inputs("shown:")}


@dataclass(frozen=True, kw_only=True, slots=True)
class ComparedSuite:
    """One suite: the evidence, the candidate's score, and what the base scored and said, in the score's order.

    ``evidence`` is None of a suite without right answers; ``base_shown`` are the base's answers to prompts without a
    right answer, by their ids.
    """

    key: str
    evidence: SuiteEvidence | None
    score: SuiteScore
    base: tuple[float, ...]
    base_answers: tuple[str | None, ...]
    base_shown: Mapping[str, str] = field(default_factory=dict)

    def items(self) -> Iterator[tuple[Said, str | None, float, float]]:
        """Of each item its texts, the base's answer, the base's score and the candidate's."""
        yield from zip(self.score.said, self.base_answers, self.base, self.score.correct, strict=True)

    def write(self, folder: Path) -> None:
        """One row an item; questions and right answers stay in the suite."""
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
    """Keep a base's scores and answers as samples; of each suite metric, value, n and what is ``also`` known."""
    facts: dict[str, dict[str, Any]] = {}
    for key, score in scores.items():
        if score.n:
            facts[key] = {"metric": score.metric, "value": score.value, "n": score.n}
            facts[key] |= {"also": score.also} if score.also else {}
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
    """Each suite's items paired with the baseline's. Raises UserError where the items are not the same."""
    also = _also(baseline)
    return [_compare(baseline, key, score, also.get(key, {}), scratch, seed) for key, score in scores.items()]


def _compare(
    baseline: Artifact, key: str, score: SuiteScore, also: Mapping[str, float], scratch: Path, seed: int
) -> ComparedSuite:
    shown = _shown(baseline, key)
    if not score.n:
        return ComparedSuite(key=key, evidence=None, score=score, base=(), base_answers=(), base_shown=shown)
    ids, columns = read_suite_samples(baseline.path(f"samples/{key}.parquet", scratch))
    base = columns[SCORE]
    evidence = compare_suite(key, score.metric, (ids, base), (score.item_ids, score.correct), seed=seed)
    further = {name: AlsoEvidence(base=also.get(name), candidate=value) for name, value in score.also.items()}
    return ComparedSuite(
        key=key,
        evidence=evidence.model_copy(update={"also": further}),
        score=score,
        base=base,
        # Baselines of old kept no answers.
        base_answers=columns.get(ANSWER, (None,) * len(ids)),
        base_shown=shown,
    )


def _also(baseline: Artifact) -> dict[str, dict[str, float]]:
    scores = json.loads(baseline.read("report.json")).get("scores", {})
    return {key: found.get("also", {}) for key, found in scores.items()}


def _shown(baseline: Artifact, key: str) -> dict[str, str]:
    name = f"samples/{key}-shown.parquet"
    if name not in baseline.manifest.files:
        return {}
    columns = parse_samples(baseline.read(name), name)
    return dict(zip(columns[ITEM_ID], columns[ANSWER], strict=True))
