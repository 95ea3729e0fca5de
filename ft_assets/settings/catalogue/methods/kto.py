"""Kahneman-Tversky optimization: answers that people liked or not, compared with a reference.

Rate and ``beta`` as in the paper (Ethayarajh et al. 2024, https://arxiv.org/abs/2402.01306), which trains one epoch.
"""

from pydantic import Field

from ft_assets.settings.catalogue.forms.unpaired import UNPAIRED
from ft_assets.settings.catalogue.method import Method
from ft_resources.settings import Settings


class KtoSettings(Settings):
    """KTO (https://arxiv.org/abs/2402.01306)."""

    beta: float = Field(0.1, gt=0.0, le=100.0, description="How strongly the policy is held to the reference.")
    desirable_weight: float = Field(
        1.0,
        gt=0.0,
        le=1000.0,
        description="Weight of answers that people liked. The paper keeps the ratio of (weight times number of "
        "answers) between 1:1 and 4:3.",
    )
    undesirable_weight: float = Field(1.0, gt=0.0, le=1000.0, description="Weight of answers that people did not like.")


KTO = Method(
    name="kto",
    what="learning from answers that people liked or not, one a prompt, with a reference",
    form=UNPAIRED,
    objective="ft_assets.workers.training.methods.kto:KahnemanTversky",
    section="kto",
    settings=KtoSettings,
    full_rate=5e-7,
    rate_why="; kto takes smaller steps, as it leaves its reference soon",
    epochs=(1, "kto was trained for one epoch (https://arxiv.org/abs/2402.01306)"),
    compares=True,
    beyond_likelihood=None,
)
