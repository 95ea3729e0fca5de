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
        description="Whether an adapter that comes to staging is rolled out by itself, where another one is in "
        "production.",
    )
    completes: bool = Field(
        default=True,
        description="Whether the evidence of a rollout moves its candidate to production; false: a person does.",
    )
    steps: Annotated[tuple[int, ...], Strict(False)] = Field(
        default=STEPS, description="Weights of the candidate in percent, rising; the last is 100: production."
    )
    shadow: int = Field(
        default=0,
        ge=0,
        le=100,
        description="Percent of the requests that are copied to the candidate before it answers any; 0: none.",
    )
    judge: ShadowJudge | None = Field(
        default=None,
        description="A judge that compares both answers to a sample of the copied requests, in every rollout of the "
        "line that copies some; null: none is asked.",
    )
    minimum: int = Field(default=MINIMUM, ge=1, description="Outcomes of the candidate of each kind, at each weight.")
    outcomes: Annotated[tuple[Kind, ...], Strict(False)] = Field(
        default=OUTCOMES, min_length=1, description="Kinds of outcomes that count."
    )
    margins: dict[Kind, float] = Field(
        default_factory=dict, description=f"By kind, the loss that is a regression; {MARGIN} for the others."
    )
    latency_limit_s: float | None = Field(
        default=None,
        gt=0.0,
        description="Answers within it are good; null: what nine of ten of production's answers stayed within in the "
        "last day.",
    )
