"""The dataset's holdout: the candidate is clearly better at the tenant's task."""

from typing import Literal

from pydantic import Field

from ft_assets.settings.catalogue.gate import Gate
from ft_resources.settings import Settings

AnswerMetric = Literal["exact_match", "rouge1", "rougeL", "bleu", "accuracy", "balanced_accuracy", "macro_f1"]


class TaskGainGate(Settings):
    """The candidate must be better than its base on the dataset's holdout."""

    metric: Literal[AnswerMetric, "perplexity", "preference_accuracy"] = Field(
        "exact_match",
        description="The metric that must improve: one of evaluation.holdout.metrics, or perplexity; for dpo and orpo "
        "also preference_accuracy, the share of pairs whose chosen answer has a higher likelihood per token "
        "than the rejected one.",
    )
    min_relative: float = Field(
        0.05,
        ge=0.0,
        le=1000.0,
        description="Minimum gain over the base, as a share of its score, or of its remaining error if the score is "
        "above 0.5.",
    )


TASK_GAIN = Gate(
    name="task_gain",
    claim="The candidate is clearly better than its base on the dataset's holdout.",
    setting="task_gain",
    settings=TaskGainGate,
    measure=lambda evidence, settings, suites: (
        evidence.holdout.get(settings.metric),
        settings,
        evidence.loss,
        evidence.graded,
    ),
    verdict="ft_assets.workers.evals.gate_gain:judge_gain",
    remedy="train longer or with a higher rank, add examples to the dataset, or choose a metric that fits the task",
    always=True,
    waivable=True,
    stricter={"min_relative": ">"},
)
