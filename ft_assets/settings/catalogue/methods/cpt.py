"""Continued pre-training."""

from ft_assets.settings.catalogue.forms.text import TEXT
from ft_assets.settings.catalogue.method import Method

CPT = Method(
    name="cpt",
    what="continued pre-training on text",
    form=TEXT,
    objective="ft_assets.workers.training.methods.sft:Likelihood",
    full_rate=2e-5,
    epochs=(1, "text is read once"),
    token_mean=True,
    teaches_tokens=True,
)
