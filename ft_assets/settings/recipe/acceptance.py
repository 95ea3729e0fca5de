"""What candidate and base are evaluated on, and what a candidate must reach."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from ft_assets.settings.catalogue.gates.judge import JudgeGate
from ft_assets.settings.catalogue.gates.profiles import PROFILES, ProfileName, profile_of, stated
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.catalogue.gates.scores import Score
from ft_assets.settings.catalogue.gates.task_gain import AnswerMetric, TaskGainGate
from ft_assets.settings.keys import check_suite_key
from ft_assets.settings.recipe.judges import PairwiseJudge, RefusalClassifier
from ft_resources.settings import Settings, text_check, unique
from ft_resources.strict_model import added_field

SuiteKey = Annotated[str, text_check(check_suite_key)]
SuiteKeys = Annotated[tuple[SuiteKey, ...], Strict(False), AfterValidator(unique)]


class HoldoutSettings(Settings):
    """What is measured on the dataset's own holdout, besides perplexity (always) and preference accuracy (for
    pairs)."""

    metrics: Annotated[tuple[AnswerMetric, ...], Strict(False), AfterValidator(unique), Field(max_length=10)] = Field(
        ("exact_match",),
        description="Metrics of generated answers; word F1 is always measured. exact_match: equal after trimming. "
        "rouge1, rougeL, bleu: word overlap with the target. accuracy, balanced_accuracy, macro_f1: for "
        "answers that are labels, compared without case and surrounding punctuation.",
    )
    max_samples: int = Field(400, ge=1, le=1_000_000, description="Maximum number of holdout rows to answer and score.")
    max_new_tokens: int = Field(64, ge=1, le=32_768, description="Maximum length of an answer, in tokens.")


Engine = Literal["transformers", "vllm"]


class ValidationSuite(Settings):
    """A suite on which the kept weights of a training are compared; the best go to the gates."""

    suite: SuiteKey = Field(
        description="Small registered general suite (name.vN) that is not in evaluation.suites, so that weights are "
        "not "
        "evaluated on the items used to choose them."
    )
    limit: int | None = Field(None, ge=1, description="Number of items to use, from the first; null: all.")


class EvaluationSettings(Settings):
    """What candidate and base are scored on."""

    suites: SuiteKeys = Field(
        ("book-cloze.v1",),
        description="Registered suites (name.vN): general suites, tested for regressions, and at most one safety "
        "suite, "
        "on which refusals are counted. With gates: none, suites are optional and the default is none.",
    )
    suite_limit: int | None = Field(
        None, ge=1, description="Number of items to use of each suite, from the first; null: all."
    )
    holdout: HoldoutSettings = Field(HoldoutSettings(), description="Measurements on the dataset's holdout.")
    candidate: Literal["last", "best_validation", "best_suite"] | Annotated[int, Field(ge=1)] = added_field(
        "last",
        description="Weights to evaluate: last; or, among these and the ones kept by training.keep_best, those with "
        "the "
        "lowest validation loss (best_validation) or the highest score on validation_suite (best_suite); or "
        "a step number. The holdout is never used for this choice.",
    )
    validation_suite: ValidationSuite | None = added_field(
        None,
        description="Suite used by candidate: best_suite; null: none.",
    )
    seed: int = Field(17, ge=0, lt=2**31, description="Seed for the choice of few-shot examples and holdout rows.")
    engine: Engine = added_field(
        "transformers",
        description="Engine that generates answers: transformers, or vllm if the workers' image includes it and a GPU "
        "is "
        "available. Likelihoods are always computed with transformers.",
    )
    judge: PairwiseJudge | None = added_field(
        None,
        description="Judge model that compares the candidate's answers with the base's; null: none.",
    )
    refusal_classifier: RefusalClassifier | None = added_field(
        None,
        description="Model that detects refusals on the safety suite; null: the documented rule is used.",
    )

    @model_validator(mode="after")
    def _chosen_by_a_suite_of_its_own(self) -> "EvaluationSettings":
        if self.candidate == "best_suite" and self.validation_suite is None:
            raise ValueError("candidate: best_suite needs a suite: name one in validation_suite")
        if self.validation_suite is None:
            return self
        if self.candidate != "best_suite":
            raise ValueError("validation_suite: not used by this candidate; set candidate: best_suite, or remove it")
        if self.validation_suite.suite in self.suites:
            raise ValueError(
                f"validation_suite: {self.validation_suite.suite} is also used by the gates; choose another "
                "one, or remove it from suites"
            )
        return self


def _once(scores: tuple[Score, ...]) -> tuple[Score, ...]:
    unique(tuple(score.metric for score in scores))
    return scores


class GateSettings(Settings):
    """What a candidate must reach to become an adapter."""

    profile: ProfileName | None = added_field(
        None,
        description="Thresholds by purpose, stored in place of this name; a field set beside it takes precedence. "
        "chat: "
        "perplexity falls by 2 %; code: by 5 %; extraction: exact_match gains 5 %; classification: macro_f1 "
        "gains 5 %; all: no suite drops by more than 2 points. none: as gates: none.",
    )
    benchmark_regression: BenchmarkRegressionGate = Field(
        BenchmarkRegressionGate(), description="Limit on regressions on the general suites."
    )
    task_gain: TaskGainGate = Field(TaskGainGate(), description="Required gain on the dataset's holdout.")
    safety: SafetyGate | None = Field(
        None, description="Required refusal rates on the safety suite in evaluation.suites; null: not required."
    )
    judge: JudgeGate | None = Field(None, description="Required win rate according to a judge; null: not required.")
    scores: Annotated[tuple[Score, ...], Strict(False), AfterValidator(_once), Field(max_length=20)] = Field(
        (), description="Absolute scores that the candidate must reach."
    )

    @model_validator(mode="before")
    @classmethod
    def _states_its_profile(cls, data: Any) -> Any:
        return stated(data) if profile_of(data) in PROFILES else data
