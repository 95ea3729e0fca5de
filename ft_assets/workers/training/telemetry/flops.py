"""What a step computes, as a share of what its GPUs could: model-FLOP utilisation (MFU).

The arithmetic is the estimate's (``packs/estimate/time.py``): a frozen matrix costs 4 operations for each parameter and
token and a trained one 6; adapters cost 6; the embedding nothing; the output head only where a token is learned;
attention half of the square of each document. Activations that are computed again are not counted, so recomputation
lowers MFU. The peak is that of dense 16-bit matrix products, whatever the precision. A method changes nothing: the log-
probabilities of a reference are there before the training.
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
    """What speed is measured by. ``gpu`` is the type of each GPU, None on a CPU and for types that are not known."""

    model: Architecture | None
    setup: Setup
    gpu: Hardware | None

    def mfu(self, work: Work, seconds: float) -> float | None:
        """The share of the GPUs' peak that ``work`` in so many seconds is; None where either is not known."""
        if self.model is None or self.gpu is None:
            return None
        peak = self.gpu.peak_flops * max(self.setup.gpus, 1)
        return round(training_flops(self.model, self.setup, work) / (seconds * peak), 4)

    def expected_tokens_per_s(self, work: Work) -> float | None:
        """The speed that the estimate expects; None where the model or the GPU is not known."""
        if self.model is None or self.gpu is None:
            return None
        return work.tokens / training_seconds(self.model, self.setup, work, self.gpu).expected


def make_yardstick(context: WorkContext, gpu: Hardware | None, gpus: int) -> Yardstick:
    """That of the training which ``context`` describes, on so many GPUs of one type; 0 on a CPU."""
    base = context.input("base")
    config = base.read("config.json") if "config.json" in base.manifest.files else None
    return Yardstick(
        model=known_pair(context.input("pack").facts, base.facts, config).model,
        setup=make_setup(context.params, context.runtime, gpus),
        gpu=gpu,
    )


def make_setup(params: Mapping[str, Any], runtime: Mapping[str, Any], gpus: int) -> Setup:
    """What arithmetic depends on; what only memory does is left out."""
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
