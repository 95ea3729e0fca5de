"""Direct preference optimization: pairs, compared with a reference.

It overshoots easily, so its learning rate is low: 5e-7 as in Zephyr (https://arxiv.org/abs/2310.16944) and Tulu 3
(https://arxiv.org/abs/2411.15124).
"""

from ft_assets.settings.catalogue.forms.preference import PREFERENCE
from ft_assets.settings.catalogue.method import Method
from ft_assets.settings.catalogue.methods.preference_settings import PreferenceSettings

DPO = Method(
    name="dpo",
    what="preference learning from pairs of a chosen and a rejected answer, with a reference model",
    form=PREFERENCE,
    objective="ft_assets.workers.training.methods.dpo:DirectPreference",
    section="preference",
    settings=PreferenceSettings,
    full_rate=5e-7,
    rate_why="; dpo uses a lower rate because the policy leaves its reference quickly",
    epochs=(1, "dpo begins to overfit in a second epoch (Zephyr, https://arxiv.org/abs/2310.16944)"),
    compares=True,
    beyond_likelihood=None,
)
