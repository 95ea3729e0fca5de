"""Odds-ratio preference optimization: learn the chosen answer, and make it likelier than the rejected one.

Hong et al., "ORPO: Monolithic Preference Optimization without Reference Model", 2024
(https://arxiv.org/abs/2403.07691), equations 3 to 7: the log-probability of an answer is the mean over its tokens,
and the loss of a pair ``-log p(chosen) - beta * log sigmoid(log odds(chosen) - log odds(rejected))``.

This follows the paper where TRL's ``ORPOTrainer`` differs: TRL's first term is the mean over all tokens of a
micro-batch, including prompts, so it depends on the micro-batch and learns to write prompts. The second term is the
same.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch.nn.functional import logsigmoid

from ft_assets.settings.catalogue.methods.preference_settings import PreferenceSettings
from ft_assets.workers.packs.isolation.batches import MicroBatch
from ft_assets.workers.training.methods.objective import Objective, Part, Whole
from ft_assets.workers.training.methods.pairs import FIGURES, read_pairs

_SUREST = -(2.0**-24)
"""In float32, a log-probability above this equals certainty, whose odds would be infinite."""


class OddsRatio(Objective):
    """The mean over pairs of the chosen answer's negative log-likelihood (nats per token) and the odds-ratio term."""

    figures = (*FIGURES, "nll_loss")

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._beta = PreferenceSettings.model_validate(params["preference"]).beta

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None = None) -> Part:
        pairs = read_pairs(model, batch)
        means = pairs.logps / pairs.lengths
        likelihood = -(means[:, 0] * pairs.weights).sum() / whole.examples
        odds = log_odds(means)
        ratio = -(logsigmoid(odds[:, 0] - odds[:, 1]) * pairs.weights).sum() / whole.examples
        reported = {**pairs.figures(self._beta * means, whole.examples), "nll_loss": likelihood.detach()}
        return Part(loss=likelihood + self._beta * ratio, figures=reported)


def log_odds(logps: torch.Tensor) -> torch.Tensor:
    """``log(p / (1 - p))`` of log-probabilities, finite and with finite gradients even if p rounds to 1."""
    sure = logps.clamp(max=_SUREST)
    return sure - torch.log(-torch.expm1(sure))
