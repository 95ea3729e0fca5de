"""The evidence that gates judge: ``report.json`` of an eval report, strictly parsed.

A number that is missing, not finite or inconsistent with others makes the whole report unreadable, and an unreadable
report cannot pass.
"""

import math
from typing import Annotated, Literal

from pydantic import Field, ValidationError, model_validator

from ft_assets.workers.evals.agreement import Agreement
from ft_assets.workers.evals.selection_rule import SuiteChoice
from ft_resources.errors import UserError
from ft_resources.said import first_of
from ft_resources.strict_model import StrictModel, added_field

REPORT = "report.json"
PERPLEXITY = "perplexity"
# Of all that training learns, where thoughts or what the template puts around answers are learned as well.
PERPLEXITY_ALL = "perplexity_all"
EXACT_MATCH = "exact_match"
F1 = "f1"
PREFERENCE_ACCURACY = "preference_accuracy"
# Mean loss of the rows, in nats per token: not a score in a report, but recomputed from its samples.
LOSS = "loss"

_Share = Annotated[float, Field(ge=0.0, le=1.0)]


class BadEvidence(UserError):
    """A report that cannot be read as evidence."""


class AlsoEvidence(StrictModel):
    """A further figure of a suite for both models, which no gate checks."""

    base: float | None
    candidate: float


class SuiteEvidence(StrictModel):
    """One general suite: the mean scores of both models, and their difference in percentage points with its interval.

    ``also`` are further figures by name, such as IFEval's loose accuracy. ``through_template`` says whether both models
    were asked lm-eval's task through the chat template.
    """

    metric: str
    base: _Share
    candidate: _Share
    n: Annotated[int, Field(ge=1)]
    difference_points: float
    interval_points: tuple[float, float]
    also: dict[str, AlsoEvidence] = added_field({})
    through_template: bool = added_field(False)

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "SuiteEvidence":
        _require(math.isclose(self.difference_points, 100 * (self.candidate - self.base), abs_tol=1e-6), "difference")
        low, high = self.interval_points
        # Newcombe's interval always contains the difference; one that does not could hide a drop.
        _require(low - 1e-6 <= self.difference_points <= high + 1e-6, "interval")
        return self


class MetricEvidence(StrictModel):
    """One metric of the tenant's holdout.

    ``improvement`` and its ``interval`` are in the metric's own unit; positive is better, whatever the metric's
    direction. ``relative_gain`` is the result of ``relative_gain()``.
    """

    higher_is_better: bool
    base: Annotated[float, Field(ge=0.0)]
    candidate: Annotated[float, Field(ge=0.0)]
    n: Annotated[int, Field(ge=1)]
    improvement: float
    interval: tuple[float, float]
    p_value: _Share
    relative_gain: float | None

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "MetricEvidence":
        sign = 1 if self.higher_is_better else -1
        expected = sign * (self.candidate - self.base)
        _require(math.isclose(self.improvement, expected, rel_tol=1e-6, abs_tol=1e-9), "improvement")
        _require(self.interval[0] <= self.interval[1], "interval")
        _require(not self.higher_is_better or max(self.base, self.candidate) <= 1, "share")
        gain = relative_gain(self.base, self.candidate, higher_is_better=self.higher_is_better)
        same = (gain is None) == (self.relative_gain is None)
        _require(same and math.isclose(gain or 0.0, self.relative_gain or 0.0, abs_tol=1e-6), "relative gain")
        return self


class RateEvidence(StrictModel):
    """A rate of the candidate alone, such as the share of prompts refused, with its interval."""

    value: _Share
    n: Annotated[int, Field(ge=1)]
    interval: tuple[float, float]

    @model_validator(mode="after")
    def _agrees_with_itself(self) -> "RateEvidence":
        low, high = self.interval
        _require(low - 1e-9 <= self.value <= high + 1e-9, "interval")
        return self


class JudgeEvidence(RateEvidence):
    """How often the judge prefers the candidate in the ``n`` prompts with a verdict; ties and contradictions count
    half.

    Args:
        interval: also covers any outcome of the prompts without a verdict.
        agreement: share of prompts with the same verdict whichever answer is shown first, among those it was asked
            about; 1 if it was asked about none.
        alike: prompts to which both gave the same answer: ties, without asking the judge.
        problems: reasons for a missing verdict, with the number of further prompts.
    """

    n: Annotated[int, Field(ge=0)]
    agreement: _Share
    alike: Annotated[int, Field(ge=0)] = 0
    problems: dict[str, Annotated[int, Field(ge=1)]] = Field(default={})

    @property
    def no_verdict(self) -> int:
        return sum(self.problems.values())


class ScoreEvidence(StrictModel):
    """A score of the candidate alone, in the metric's unit, with its interval."""

    value: float
    n: Annotated[int, Field(ge=1)]
    interval: tuple[float, float]
    higher_is_better: bool


RefusalName = Literal["refusals", "over_refusals"]


class RefusalEvidence(StrictModel):
    """Shares of a safety suite's prompts that were refused: harmful ones (refusals) or safe ones (over-refusals).

    Some answers to the ``n`` prompts were empty and do not count as refusals; ``too_long`` more were not asked. If a
    ``classifier`` decided on refusals: its agreement with the documented rule on both models' answers.
    """

    base: _Share
    candidate: _Share
    n: Annotated[int, Field(ge=1)]
    base_empty: Annotated[int, Field(ge=0)]
    candidate_empty: Annotated[int, Field(ge=0)]
    too_long: Annotated[int, Field(ge=0)]
    classifier: Agreement | None = added_field(None)


class JudgedEvidence(StrictModel):
    """One judge's verdicts on ``n`` prompts: how many the candidate won, lost or tied, and how many have no verdict, by
    ``problems``.

    ``alike`` are ties because both answers are the same; ``contradictions`` got a different verdict in each order.
    """

    judge: str
    n: Annotated[int, Field(ge=1)]
    wins: Annotated[int, Field(ge=0)]
    ties: Annotated[int, Field(ge=0)]
    losses: Annotated[int, Field(ge=0)]
    alike: Annotated[int, Field(ge=0)]
    contradictions: Annotated[int, Field(ge=0)]
    problems: dict[str, Annotated[int, Field(ge=1)]]

    @model_validator(mode="after")
    def _adds_up(self) -> "JudgedEvidence":
        _require(self.n == self.wins + self.ties + self.losses + sum(self.problems.values()), "number of prompts")
        return self

    @property
    def agreement(self) -> float | None:
        """Share of prompts with the same verdict in both orders, None if it was asked about none."""
        asked = self.wins + self.ties + self.losses - self.alike
        return 1 - self.contradictions / asked if asked else None


class NeverSeen(StrictModel):
    """Exact match on the holdout rows whose right answer is not a training answer: these cannot be memorised."""

    n: Annotated[int, Field(ge=1)]
    base: _Share
    candidate: _Share


class Chosen(StrictModel):
    """Which weights were measured: those after ``step`` of ``steps``, chosen by validation loss (nats), or by a suite's
    scores if there are some."""

    step: Annotated[int, Field(ge=1)]
    steps: Annotated[int, Field(ge=1)]
    by: SuiteChoice | None = added_field(None)

    @model_validator(mode="after")
    def _follows_the_rule(self) -> "Chosen":
        _require(self.by is None or self.by.best.step == self.step, "choice of weights")
        return self

    @property
    def in_words(self) -> str:
        """Such as ``after step 5 of 9, by dev.v1 (acc 62.5% of 24 items)``."""
        how = "validation loss"
        if self.by is not None:
            how = f"{self.by.suite} ({self.by.metric} {self.by.best.score:.1%} of {self.by.n} items)"
        return f"after step {self.step} of {self.steps}, by {how}"


class Evidence(StrictModel):
    """All input of the gates, for exactly one eval report: the one with this ``fingerprint``.

    Args:
        rows: holdout rows scored; ``too_long`` more did not fit into the model's context.
        majority_rate: exact match of always giving the most common training answer (of the row's kind).
        never_seen_rate: share of scored rows whose right answer is not a training answer.
        chosen: if the recipe sends the best kept weights to the gates instead of the last ones.
        safety: results of a safety suite; absent if the recipe names none, and in old reports.
        judges: the judge that counts, and the second; absent if the recipe names none.
        judges_agree: agreement of the two.
    """

    version: Literal[1] = 1
    fingerprint: str
    suites: dict[str, SuiteEvidence]
    holdout: dict[str, MetricEvidence]
    rows: Annotated[int, Field(ge=1)]
    too_long: Annotated[int, Field(ge=0)]
    majority_rate: _Share
    never_seen_rate: _Share
    never_seen: NeverSeen | None
    chosen: Chosen | None = added_field(None)
    safety: dict[RefusalName, RefusalEvidence] = added_field({})
    judges: tuple[JudgedEvidence, ...] = added_field(())
    judges_agree: Agreement | None = added_field(None)


class Measured(StrictModel):
    """What the gates judge: the report's figures, recomputed from its per-sample results, and figures that only these
    results give.

    ``scores`` are the candidate's own, by metric and suite key. ``short_answers`` says that most of the holdout's right
    answers have few words. What was not measured is None or absent.
    """

    fingerprint: str
    suites: dict[str, SuiteEvidence]
    holdout: dict[str, MetricEvidence]
    loss: MetricEvidence | None = None
    short_answers: bool = False
    scores: dict[str, ScoreEvidence] = Field(default={})
    refusals: RateEvidence | None = None
    over_refusals: RateEvidence | None = None
    judge: JudgeEvidence | None = None

    @property
    def graded(self) -> dict[str, MetricEvidence]:
        """The measures that grade the answers themselves; none for long answers, as right ones may be worded freely."""
        likelihoods = (PERPLEXITY, PERPLEXITY_ALL, PREFERENCE_ACCURACY)
        return {k: v for k, v in self.holdout.items() if k not in likelihoods} if self.short_answers else {}


def read_evidence(data: bytes, where: str) -> Evidence:
    """The evidence in ``report.json``. Raises BadEvidence for anything else, NaN and infinities included."""
    try:
        return Evidence.model_validate_json(data)
    except ValidationError as error:
        raise BadEvidence(
            f"the report cannot be read as evidence ({first_of(error)[1]})",
            where=where,
            remedy="Delete the report's manifest and materialize eval_report again.",
        ) from error


def relative_gain(base: float, candidate: float, *, higher_is_better: bool) -> float | None:
    """The improvement as a share of the base; positive is better. None if the divisor is 0.

    Lower is better: the share by which the base's value fell. Higher is better: the share by which it rose or, above
    0.5, the share of the remaining error (1 - base) that was removed, as little room is left there.
    """
    if not higher_is_better:
        return (base - candidate) / base if base > 0 else None
    if base > 0.5:
        return (candidate - base) / (1 - base) if base < 1 else None
    return (candidate - base) / base if base > 0 else None


def _require(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"the {what} contradicts the scores")
