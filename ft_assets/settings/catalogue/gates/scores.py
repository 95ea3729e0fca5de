"""Absolute scores of the candidate that the recipe or the submission requires."""

from pydantic import Field

from ft_assets.settings.catalogue.gate import Gate
from ft_resources.settings import Settings

LOWER_IS_BETTER = frozenset({"perplexity"})


class Score(Settings):
    """A score that the candidate must reach, whatever the base's score."""

    metric: str = Field(
        min_length=1, max_length=200, description="A metric of the holdout, such as exact_match, or a suite's key."
    )
    better_than: float = Field(description="The threshold: the score must be above it, for perplexity below it.")

    @property
    def sign(self) -> int:
        """1 if more is better, -1 if less is."""
        return -1 if self.metric in LOWER_IS_BETTER else 1


SCORES = Gate(
    name="scores",
    claim="Every score required by the recipe or the submission is reached. Runs only if one is required.",
    setting="scores",
    settings=None,
    measure=lambda evidence, scores, suites: (evidence.scores, scores),
    verdict="ft_assets.workers.evals.gate_rates:judge_scores",
    remedy="lower the threshold, or add examples to the dataset",
)
