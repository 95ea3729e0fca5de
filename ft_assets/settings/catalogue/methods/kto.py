"""Kahneman-Tversky optimization: answers that people liked or not, compared with a reference.

Rate and ``beta`` as in the paper (Ethayarajh et al. 2024, https://arxiv.org/abs/2402.01306), which trains one epoch.
"""

from pydantic import Field

from ft_assets.settings.catalogue.forms.unpaired import UNPAIRED
from ft_assets.settings.catalogue.method import Method
from ft_resources.settings import Settings


class KtoSettings(Settings):
    """KTO (https://arxiv.org/abs/2402.01306)."""

    beta: float = Field(0.1, gt=0.0, le=100.0, description="Strength of the penalty for leaving the reference model.")
    desirable_weight: float = Field(
        1.0,
        gt=0.0,
        le=1000.0,
        description="Loss weight of liked answers. The paper keeps the ratio of (weight times number of answers) "
        "between "
        "1:1 and 4:3.",
    )
    undesirable_weight: float = Field(1.0, gt=0.0, le=1000.0, description="Loss weight of disliked answers.")


KTO = Method(
    name="kto",
    what="preference learning from liked and disliked answers, one per prompt, with a reference model",
    form=UNPAIRED,
    objective="ft_assets.workers.training.methods.kto:KahnemanTversky",
    section="kto",
    settings=KtoSettings,
    full_rate=5e-7,
    rate_why="; kto uses a lower rate because the policy leaves its reference quickly",
    epochs=(1, "kto was trained for one epoch (https://arxiv.org/abs/2402.01306)"),
    compares=True,
    beyond_likelihood=None,
)
