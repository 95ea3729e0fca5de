"""A judge's preference between the candidate's answers and the base's."""

from pydantic import Field

from ft_assets.settings.catalogue.gate import Gate
from ft_resources.settings import Settings


class JudgeGate(Settings):
    """A judge may not prefer the base's answers to the candidate's."""

    min_win_rate: float = Field(
        0.5, ge=0.0, le=1.0, description="Smallest share of prompts won, ties as halves; 0.5 is parity."
    )
    margin: float = Field(
        0.05, ge=0.0, le=1.0, description="How far below min_win_rate the win rate's interval may reach, as a share."
    )
    min_agreement: float = Field(
        0.5,
        ge=0.0,
        le=1.0,
        description="Smallest share of prompts on which the judge gives the same verdict in both orders.",
    )
    max_no_verdict: float = Field(
        0.1, ge=0.0, lt=1.0, description="Largest share of prompts on which the judge may give no verdict."
    )


JUDGE = Gate(
    name="judge",
    claim="A judge does not prefer the base's answers; only if the recipe asks for it.",
    setting="judge",
    settings=JudgeGate,
    measure=lambda evidence, settings, suites: (evidence.judge, settings),
    verdict="ft_assets.workers.evals.gate_rates:judge_preference",
    remedy="look at the answers that the judge likes less, and give the dataset better examples of these",
    waivable=True,
    stricter={"min_win_rate": ">", "margin": "<", "min_agreement": ">", "max_no_verdict": "<"},
)
