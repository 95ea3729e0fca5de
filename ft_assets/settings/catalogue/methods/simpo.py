"""Simple preference optimization: pairs, without a reference, by mean log-probabilities and a margin.

Rate, ``beta`` and ``gamma`` are the paper's values for Llama-3-Base-SFT (Meng et al. 2024,
https://arxiv.org/abs/2405.14734, appendix B); it recommends ``gamma / beta`` between 0.3 and 0.8.
"""

from pydantic import Field

from ft_assets.settings.catalogue.forms.preference import PREFERENCE
from ft_assets.settings.catalogue.method import Method
from ft_resources.settings import Settings


class SimpoSettings(Settings):
    """SimPO (https://arxiv.org/abs/2405.14734)."""

    beta: float = Field(
        2.0, gt=0.0, le=100.0, description="Scale of an answer's reward, which is its mean log-probability per token."
    )
    gamma: float = Field(
        1.0,
        ge=0.0,
        le=100.0,
        description="Margin by which the chosen answer's reward should exceed the rejected one's.",
    )


SIMPO = Method(
    name="simpo",
    what="the same without a reference model, by mean log-probabilities per token and a margin",
    form=PREFERENCE,
    objective="ft_assets.workers.training.methods.simpo:SimplePreference",
    section="simpo",
    settings=SimpoSettings,
    full_rate=6e-7,
    rate_why="; simpo uses a lower rate than sft because only its margin limits the move away from rejected answers",
    epochs=(1, "simpo was trained for one epoch (https://arxiv.org/abs/2405.14734)"),
    beyond_likelihood=None,
)
