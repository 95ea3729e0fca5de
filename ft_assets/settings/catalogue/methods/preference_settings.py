"""The recipe's section ``preference``, which dpo and orpo share."""

from typing import Literal

from pydantic import Field

from ft_resources.settings import Settings


class PreferenceSettings(Settings):
    """Learning from pairs: DPO (https://arxiv.org/abs/2305.18290) and ORPO (https://arxiv.org/abs/2403.07691)."""

    beta: float = Field(
        0.1,
        gt=0.0,
        le=100.0,
        description="dpo: strength of the penalty for leaving the reference model; orpo: weight of the odds-ratio "
        "term.",
    )
    loss: Literal["sigmoid", "sigmoid_norm"] = Field(
        "sigmoid",
        description="dpo: sigmoid, or sigmoid_norm, which divides log-probabilities by the answers' lengths "
        "(https://arxiv.org/abs/2411.15124) and needs a larger beta, such as 5.",
    )
