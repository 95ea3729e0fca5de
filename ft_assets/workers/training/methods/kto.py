"""Kahneman-Tversky optimization: make liked answers likelier than under the reference, and the others less likely.

Ethayarajh et al., "KTO: Model Alignment as Prospect Theoretic Optimization", 2024 (https://arxiv.org/abs/2402.01306),
equations 7 and 8. Losses and figures are those of TRL's ``KTOTrainer`` with ``loss_type="kto"``, whose micro-batch
corresponds to the whole step here: the KL estimate is the mean over all its mismatched documents
(``packs.documents.mismatched``), so neither micro-batches nor ranks change it.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Mapping
from typing import Any

import torch
from numpy.typing import NDArray

from ft_assets.settings.catalogue.methods.kto import KtoSettings
from ft_assets.workers.packs.isolation.batches import MicroBatch, on_device
from ft_assets.workers.training.methods.objective import FirstLoss, Objective, Part, Whole
from ft_assets.workers.training.reference import document_logps

_ROUNDING = {False: 0.01, True: 1.0}
"""Rounding tolerance in nats of an answer's log-ratio, in float32 on a CPU and elsewhere."""


class KahnemanTversky(Objective):
    """The mean over answers of ``weight * (1 - sigmoid(± beta * (log-ratio - KL)))``, + for liked answers.

    The log-ratio is that of the policy's to the reference's likelihood of the answer, in nats; KL is the mean log-ratio
    of mismatched answers, at least 0, without gradients. ``rewards/chosen`` and ``rewards/rejected`` are means over the
    liked and the other answers of a step, 0 if it has none.
    """

    figures = ("rewards/chosen", "rewards/rejected", "rewards/margins", "kl")
    sums = 2

    def __init__(self, params: Mapping[str, Any]) -> None:
        self._settings = KtoSettings.model_validate(params["kto"])

    def survey(self, model: Any, batch: MicroBatch, reference: NDArray[Any] | None) -> torch.Tensor:
        """The summed log-ratios of mismatched documents, and the number of liked answers."""
        ratios = _log_ratios(model, batch, reference, 1).double()
        return torch.stack([ratios.sum(), on_device(_liked(batch).double().sum(), ratios.device)])

    def part(self, model: Any, batch: MicroBatch, whole: Whole, reference: NDArray[Any] | None) -> Part:
        mismatched, desirable = whole.surveyed
        kl = (mismatched / whole.examples).clamp(min=0.0)
        ratios = _log_ratios(model, batch, reference, 0)
        liked = on_device(_liked(batch), ratios.device)
        settings = self._settings
        weights = torch.where(liked, settings.desirable_weight, settings.undesirable_weight)
        losses = weights * (1 - torch.sigmoid(settings.beta * torch.where(liked, ratios - kl, kl - ratios)))
        rewards = settings.beta * ratios.detach()
        chosen = (rewards * liked).sum() / desirable.clamp(min=1)
        rejected = (rewards * ~liked).sum() / (whole.examples - desirable).clamp(min=1)
        values = (chosen, rejected, chosen - rejected, (kl * len(ratios) / whole.examples).to(chosen.dtype))
        return Part(loss=losses.sum() / whole.examples, figures=dict(zip(self.figures, values, strict=True)))

    def first_loss(self, *, rough: bool) -> FirstLoss | None:
        """Half the weight and zero rewards, as a policy that equals the reference prefers no answer; only if both
        weights are equal, as the step's answers are not known here."""
        settings, nats = self._settings, _ROUNDING[rough]
        if settings.desirable_weight != settings.undesirable_weight:
            return None
        reward = settings.beta * nats
        zeros = {"rewards/chosen": reward, "rewards/rejected": reward, "kl": nats}
        weight = settings.desirable_weight
        # The sigmoid's slope is at most a quarter, and both log-ratio and KL may be off.
        return FirstLoss(value=weight / 2, tolerance=weight * min(0.5, reward / 2), zeros=zeros)


def _log_ratios(model: Any, batch: MicroBatch, reference: NDArray[Any] | None, which: int) -> torch.Tensor:
    """Log-ratio of each window's own answer (0) or mismatched one (1), float32 [windows]."""
    assert reference is not None
    logps = document_logps(model, batch.every(which, 2))
    return logps - on_device(torch.tensor(reference[which::2]), logps.device)


def _liked(batch: MicroBatch) -> torch.Tensor:
    """Whether people liked each window's own answer, bool [windows], on the CPU."""
    return batch.pieces[::2] < 2
