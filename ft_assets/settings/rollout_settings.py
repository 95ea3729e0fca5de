"""Rollouts of one line: whether they begin and end automatically, and how, in ``tenants.yaml``."""

from typing import Annotated, Literal, get_args

from pydantic import Field, Strict

from ft_assets.settings.shadow_judge import ShadowJudge
from ft_resources.settings import Settings

Kind = Literal["thumbs", "judge", "latency", "refusal", "format"]
KINDS: tuple[Kind, ...] = get_args(Kind)
STEPS = (1, 5, 25, 100)
ALONE = 25
"""Highest weight that a rollout has before a second person approves it, where production needs one."""
MINIMUM = 200
MARGIN = 0.05
OUTCOMES: tuple[Kind, ...] = ("thumbs", "latency")
SHADOWED: tuple[Kind, ...] = ("latency", "refusal", "format")
"""Kinds of outcomes of an answer that nobody saw."""


class RolloutSettings(Settings):
    """The plan of automatic rollouts, and settings for all rollouts of the line."""

    automatic: bool = Field(
        default=False,
        description="Whether an adapter promoted to staging starts a rollout automatically, if another one is in "
        "production.",
    )
    completes: bool = Field(
        default=True,
        description="Whether a successful rollout promotes its candidate to production automatically; false: a person "
        "promotes it.",
    )
    steps: Annotated[tuple[int, ...], Strict(False)] = Field(
        default=STEPS,
        description="Increasing traffic shares of the candidate, in percent; the last is 100 (production).",
    )
    shadow: int = Field(
        default=0,
        ge=0,
        le=100,
        description="Percentage of requests copied to the candidate before it receives traffic (shadow stage); 0: no "
        "shadow stage.",
    )
    judge: ShadowJudge | None = Field(
        default=None,
        description="Judge that compares both answers to a sample of the copied requests in the shadow stage; null: no "
        "judge.",
    )
    minimum: int = Field(
        default=MINIMUM, ge=1, description="Minimum number of the candidate's outcomes of each kind, per step."
    )
    outcomes: Annotated[tuple[Kind, ...], Strict(False)] = Field(
        default=OUTCOMES, min_length=1, description="Kinds of outcomes that decide the rollout."
    )
    margins: dict[Kind, float] = Field(
        default_factory=dict,
        description=f"Loss of good outcomes that counts as a regression, by kind; {MARGIN} for other kinds.",
    )
    latency_limit_s: float | None = Field(
        default=None,
        gt=0.0,
        description="Latency limit of a good answer, in seconds; null: the 90th percentile of production in the last "
        "day.",
    )
