"""Model-FLOP utilisation (MFU): a step's operations as a share of its GPUs' peak.

Operations are counted as by the estimate (``model_size/time.py``): a frozen matrix costs 4 for each parameter and
token, a trained one 6; adapters cost 6; the embedding nothing; the output head only where a token is learned; attention
half of the square of each document. Recomputed activations are not counted, so recomputation lowers MFU. The peak is
that of dense 16-bit matrix products, whatever the precision. The method does not matter: the log-probabilities of a
reference are computed before the training.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ft_assets.settings.bounds import Bounds
from ft_assets.settings.gpus import Hardware
from ft_assets.workers.model_size.known import known_pair
from ft_assets.workers.model_size.memory import Setup
from ft_assets.workers.model_size.model_size import Architecture
from ft_assets.workers.model_size.time import Work, training_flops, training_seconds
from ft_resources.worker_context import WorkContext


@dataclass(frozen=True, kw_only=True, slots=True)
class Yardstick:
    """What MFU and expected speed depend on. ``gpu`` is the type of each GPU; None on a CPU and for unknown types."""

    model: Architecture | None
    setup: Setup
    gpu: Hardware | None

    def mfu(self, work: Work, seconds: float) -> float | None:
        """MFU of ``work`` done in ``seconds``; None if the model or the GPU is unknown."""
        if self.model is None or self.gpu is None:
            return None
        peak = self.gpu.peak_flops * max(self.setup.gpus, 1)
        return round(training_flops(self.model, self.setup, work) / (seconds * peak), 4)

    def expected_tokens_per_s(self, work: Work) -> float | None:
        """The speed that the estimate expects; None if the model or the GPU is unknown."""
        if self.model is None or self.gpu is None:
            return None
        return work.tokens / training_seconds(self.model, self.setup, work, self.gpu).expected


def make_yardstick(context: WorkContext, gpu: Hardware | None, gpus: int) -> Yardstick:
    """The yardstick of the training in ``context``, on ``gpus`` GPUs of one type; 0 on a CPU."""
    base = context.input("base")
    config = base.read("config.json") if "config.json" in base.manifest.files else None
    return Yardstick(
        model=known_pair(context.input("pack").facts, base.facts, config).model,
        setup=make_setup(context.params, context.runtime, gpus),
        gpu=gpu,
    )


def make_setup(params: Mapping[str, Any], runtime: Mapping[str, Any], gpus: int) -> Setup:
    """What the number of operations depends on; settings that only change memory are left out."""
    training, lora = params["training"], params["lora"] or {}
    return Setup(
        variant=params["variant"],
        precision="fp32" if training["precision"] == "fp32" else "bf16",
        weights=training.get("weights", "float32"),
        optimizer=training["optimizer"],
        tokens=0,
        learned=Bounds(lower=0.0, expected=1.0, upper=1.0),
        rank=lora.get("rank", 0),
        targets=lora.get("target_modules", "all-linear"),
        dora=lora.get("use_dora", False),
        pissa=lora.get("init") == "pissa",
        recompute=int(runtime.get("recompute", 0)),
        offload=bool(runtime.get("offload", False)),
        gpus=gpus,
    )
