"""A judge that compares copied requests' answers in a rollout's shadow stage, in ``tenants.yaml``."""

from pydantic import Field, model_validator

from ft_assets.settings.recipe.judges import JudgeModel
from ft_resources.settings import Settings


class ShadowJudge(Settings):
    """The model that judges which of two answers to a request is better, and how often it is asked."""

    model: JudgeModel = Field(
        description="The judge's endpoint; its host must be among judge_hosts. A judgement may take 20 s, or timeout_s "
        "if that is less."
    )
    share: int = Field(
        default=20,
        ge=1,
        le=100,
        description="Percentage of pairs to judge, among those whose conversations may be kept.",
    )
    pairs_a_day: int = Field(
        default=200, ge=1, le=10_000, description="Maximum number of pairs judged per rollout and day (UTC)."
    )
    pair_cost: float = Field(
        default=0.0, ge=0.0, description="Maximum cost of the two judgements of a pair, in the prices' currency."
    )
    cost_a_day: float | None = Field(
        default=None, gt=0.0, description="Maximum cost of one rollout's judgements per day (UTC); null: no limit."
    )

    @model_validator(mode="after")
    def _can_be_held(self) -> "ShadowJudge":
        if self.model.is_local:
            raise ValueError("model: an endpoint is required, as no worker runs that could load a model")
        if self.cost_a_day is not None and not 0.0 < self.pair_cost <= self.cost_a_day:
            raise ValueError("cost_a_day: requires pair_cost, which must not be larger")
        return self

    @property
    def most_a_day(self) -> int:
        """Number of pairs that may be judged in a day."""
        if self.cost_a_day is None:
            return self.pairs_a_day
        # The limit is a sum of such costs: 3 times 0.1 is within 0.3.
        return min(self.pairs_a_day, int(self.cost_a_day / self.pair_cost + 1e-9))
