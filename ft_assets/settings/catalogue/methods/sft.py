"""Supervised fine-tuning. 2e-5 as in Llama 2 (https://arxiv.org/abs/2307.09288, section 3.1) and Alpaca."""

from ft_assets.settings.catalogue.forms.chat import CHAT
from ft_assets.settings.catalogue.method import Method

SFT = Method(
    name="sft",
    what="supervised fine-tuning on conversations",
    form=CHAT,
    objective="ft_assets.workers.training.methods.sft:Likelihood",
    full_rate=2e-5,
    token_mean=True,
)
