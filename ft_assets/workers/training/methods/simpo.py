"""Simple preference optimization: make the chosen answer likelier per token, by a margin.

Meng et al., "SimPO: Simple Preference Optimization with a Reference-Free Reward", 2024
(https://arxiv.org/abs/2405.14734), equation 6. Losses and figures are those of TRL's ``CPOTrainer`` with
``loss_type="simpo"`` and ``cpo_alpha=0``.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Mapping
from typing import Any

from numpy.typing import NDArray
from torch.nn.functional import logsigmoid

from ft_assets.settings.catalogue.methods.simpo import SimpoSettings
from ft_assets.workers.packs.isolation.batches import MicroBatch
from ft_assets.workers.training.methods.objective import Objective, Part, Whole
from ft_assets.workers.training.methods.pairs import FIGURES, read_pairs


class SimplePreference(Objective):
    """The mean over pairs of ``-log sigmoid(reward(chosen) - reward(rejected) - gamma)``.

    An answer's reward is ``beta`` times its mean log-probability per token.
    """

    figures = FIGURES

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._settings = SimpoSettings.model_validate(params["simpo"])

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None = None) -> Part:
        pairs = read_pairs(model, batch)
        rewards = self._settings.beta * pairs.logps / pairs.lengths
        losses = -logsigmoid(rewards[:, 0] - rewards[:, 1] - self._settings.gamma) * pairs.weights
        return Part(loss=losses.sum() / whole.examples, figures=pairs.figures(rewards, whole.examples))
