"""Direct preference optimization: prefer the chosen answer more than the reference does.

Rafailov et al., "Direct Preference Optimization", 2023 (https://arxiv.org/abs/2305.18290), equation 7; with
``sigmoid_norm``, log-probabilities are means over an answer's tokens (Lambert et al., "Tulu 3", 2024,
https://arxiv.org/abs/2411.15124, equation 6). Losses and figures are those of TRL's ``DPOTrainer``.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import math
from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray
from torch.nn.functional import logsigmoid

from ft_assets.settings.catalogue.methods.preference_settings import PreferenceSettings
from ft_assets.workers.packs.isolation.batches import MicroBatch, on_device
from ft_assets.workers.training.methods.objective import FirstLoss, Objective, Part, Whole
from ft_assets.workers.training.methods.pairs import FIGURES, read_pairs

_ROUNDING = {False: 0.01, True: 1.0}
"""Rounding tolerance in nats of a pair's log-ratio, in float32 on a CPU and elsewhere: there, a token's 0.02 in answers
of 2,000."""


class DirectPreference(Objective):
    """The mean over pairs of ``-log sigmoid(beta * margin)``.

    The margin is the policy's log-ratio to the reference on the chosen answer, minus that on the rejected one, in nats;
    ``sigmoid_norm`` divides each by its answer's tokens first.
    """

    figures = FIGURES

    def __init__(self, params: Mapping[str, Any]) -> None:
        settings = PreferenceSettings.model_validate(params["preference"])
        self._beta, self._normalised = settings.beta, settings.loss == "sigmoid_norm"

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None) -> Part:
        assert reference is not None
        pairs = read_pairs(model, batch)
        known = on_device(torch.tensor(reference), pairs.logps.device).view(-1, 2)
        ratios = pairs.logps - known
        scores = ratios / pairs.lengths if self._normalised else ratios
        losses = -logsigmoid(self._beta * (scores[:, 0] - scores[:, 1])) * pairs.weights
        # As in TRL, rewards are those of whole answers, whatever the loss.
        return Part(loss=losses.sum() / whole.examples, figures=pairs.figures(self._beta * ratios, whole.examples))

    def first_loss(self, *, rough: bool) -> FirstLoss:
        """ln 2 and zero rewards: a policy that equals the reference prefers nothing yet.

        A reference with other weights may give about ln 2 by chance, but not zero rewards on all answers.
        """
        nats = _ROUNDING[rough]
        margin = self._beta * (nats / 10 if self._normalised else nats)
        tolerance = math.log1p(math.exp(margin)) - math.log(2)
        zeros = dict.fromkeys(("rewards/chosen", "rewards/rejected"), self._beta * nats)
        return FirstLoss(value=math.log(2), tolerance=tolerance, zeros=zeros)
