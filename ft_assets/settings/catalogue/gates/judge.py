"""A judge's preference between the candidate's answers and the base's."""

from pydantic import Field

from ft_assets.settings.catalogue.gate import Gate
from ft_resources.settings import Settings


class JudgeGate(Settings):
    """A judge may not prefer the base's answers to the candidate's."""

    min_win_rate: float = Field(
        0.5, ge=0.0, le=1.0, description="Minimum win rate: share of prompts won, a tie counts half; 0.5 is parity."
    )
    margin: float = Field(
        0.05,
        ge=0.0,
        le=1.0,
        description="Margin by which the win rate's confidence interval may extend below min_win_rate, as a share.",
    )
    min_agreement: float = Field(
        0.5,
        ge=0.0,
        le=1.0,
        description="Minimum share of prompts where the judge gives the same verdict in both orders.",
    )
    max_no_verdict: float = Field(0.1, ge=0.0, lt=1.0, description="Maximum share of prompts without a verdict.")


JUDGE = Gate(
    name="judge",
    claim="The judge does not prefer the base's answers. Runs only if the recipe sets gates.judge.",
    setting="judge",
    settings=JudgeGate,
    measure=lambda evidence, settings, suites: (evidence.judge, settings),
    verdict="ft_assets.workers.evals.gate_rates:judge_preference",
    remedy="read the answers that lost, and add better examples of their kind to the dataset",
    waivable=True,
    stricter={"min_win_rate": ">", "margin": "<", "min_agreement": ">", "max_no_verdict": "<"},
)
