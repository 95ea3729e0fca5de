"""Odds-ratio preference optimization: pairs, without a reference.

It also learns the answers, so its rate is between those of sft and dpo: 5e-6, as for Mistral-ORPO.
"""

import math

from ft_assets.settings.catalogue.forms.preference import PREFERENCE
from ft_assets.settings.catalogue.method import Method
from ft_assets.settings.catalogue.methods.preference_settings import PreferenceSettings
from ft_assets.settings.catalogue.refusal import Refusal

ORPO = Method(
    name="orpo",
    what="the same without a reference model, by odds ratios",
    form=PREFERENCE,
    objective="ft_assets.workers.training.methods.orpo:OddsRatio",
    section="preference",
    settings=PreferenceSettings,
    full_rate=5e-6,
    rate_why="; orpo uses a lower rate than sft because it also moves away from rejected answers",
    # An untrained model prefers neither answer: log sigmoid of 0.
    beyond_likelihood=lambda settings: float(settings["beta"]) * math.log(2),
    refusals=(
        Refusal(
            where="preference.loss",
            refused=lambda loss: loss != "sigmoid",
            problem="preference.loss applies to dpo only; orpo has a single loss",
            instead="Leave preference.loss out, or use method dpo.",
        ),
    ),
)
