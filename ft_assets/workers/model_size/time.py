"""How long a training takes: from its operations and the usual share of peak performance, or from measured rates.

Operations are counted as for model-FLOP utilisation (Chowdhery et al. 2022, https://arxiv.org/abs/2204.02311, appendix
B): a multiplication and an addition are two operations, and the embedding is a look-up. Causal attention does half of
the full square. A frozen matrix needs no gradient of its own: 4 operations per parameter and token, a trained one 6.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from ft_assets.settings.bounds import Bounds
from ft_assets.settings.gpus import CATALOGUE, Hardware
from ft_assets.workers.model_size.memory import Setup, trained_parameters
from ft_assets.workers.model_size.model_size import Architecture

# Model-FLOP utilisation: slowest, usual, best. Published fine-tunes on one node lie between them.
_UTILISATION = Bounds(lower=0.25, expected=0.40, upper=0.60)
# With small models, a GPU waits for launches and memory.
_SMALL, _SMALL_UTILISATION = 1e9, Bounds(lower=0.08, expected=0.25, upper=0.45)
# What several GPUs lose to communication, for each doubling of their number.
_SCALING = Bounds(lower=0.85, expected=0.95, upper=1.0)
# float32 does not run on the units that the peak refers to; its own peak is about this share of it.
_FLOAT32_SHARE = 1 / 16
# Operations/s of one core in float32: from an old one that others use too to a new one with wide vectors.
_CORE_FLOPS = Bounds(lower=3e9, expected=20e9, upper=60e9)
# What an optimizer step takes beside its operations; all that counts for tiny models.
_CPU_STEP_S = Bounds(lower=0.01, expected=0.05, upper=0.5)
# AdamW reads weight, gradient and two moments in float32, and writes all but the gradient.
_OPTIMIZER_TRAFFIC = 28.0
# Between a GPU and pinned host memory, bytes/s: PCIe 3 to 5.
_HOST_BYTES_S = Bounds(lower=10e9, expected=25e9, upper=50e9)
# From the start of the pod to the first step, and from the last step to the end, without reading the weights.
_START_UP_S = Bounds(lower=45.0, expected=150.0, upper=480.0)
_LOADING_BYTES_S = Bounds(lower=0.1e9, expected=0.5e9, upper=2e9)


@dataclass(frozen=True, kw_only=True, slots=True)
class Work:
    """What a training reads.

    Args:
        tokens: over the whole run.
        steps: optimizer steps.
        learned: share of the tokens that is trained on.
        document_length: mean length of a token's document: attention does not reach further.
        validation_tokens: over all measurements of the validation loss; they cost a forward pass.
    """

    tokens: int
    steps: int
    learned: float
    document_length: float
    validation_tokens: int = 0


def training_flops(model: Architecture, setup: Setup, work: Work) -> float:
    """Operations of a whole training, without recomputation and validation."""
    frozen = setup.variant != "full"
    each = 4.0 if frozen else 6.0
    matrices = each * (model.active + work.learned * model.vocabulary * model.hidden)
    # PiSSA's frozen adapter is as large as the one that trains.
    adapters = (10.0 if setup.pissa else 6.0) * trained_parameters(model, setup) if frozen else 0.0
    return work.tokens * (matrices + adapters + 3 * _attention(model, work))


def _attention(model: Architecture, work: Work) -> float:
    """Operations per token of a forward pass: scores and their sum over values, two each, over half of the document."""
    return model.layers * 4 * model.heads * model.head_dim * work.document_length / 2


def _forward(model: Architecture, work: Work) -> float:
    return 2 * (model.active + work.learned * model.vocabulary * model.hidden) + _attention(model, work)


def training_seconds(model: Architecture, setup: Setup, work: Work, gpu: Hardware) -> Bounds:
    """From the first optimizer step to the last, on ``setup.gpus`` GPUs of one type."""
    total = training_flops(model, setup, work) + work.validation_tokens * _forward(model, work)
    total += work.tokens * _forward(model, work) * setup.recomputed(model.layers) / model.layers
    peak = _peak(setup, gpu) * setup.gpus
    doublings = max(setup.gpus, 1).bit_length() - 1
    updates = work.steps * _OPTIMIZER_TRAFFIC * trained_parameters(model, setup) / gpu.bandwidth

    # Each input of a recomputed layer goes to the host and back, while the GPU waits.
    inputs = setup.recomputed(model.layers) * setup.residual * model.hidden if setup.offload else 0
    copied = 2.0 * work.tokens * inputs / max(setup.gpus, 1)

    def seconds(share: float, scaling: float, copying: float) -> float:
        return total / (peak * share * scaling**doublings) + updates + copied / copying

    return Bounds.of(seconds, _share(model), _SCALING, _HOST_BYTES_S)


def cpu_seconds(model: Architecture, setup: Setup, work: Work, cores: int) -> Bounds:
    """The same on an unmeasured CPU: rough, as cores differ by an order of magnitude."""
    total = training_flops(model, setup, work) + work.validation_tokens * _forward(model, work)
    return Bounds.of(lambda each: total / (cores * each), _CORE_FLOPS) + _CPU_STEP_S.times(work.steps)


def any_gpu_seconds(model: Architecture, setup: Setup, work: Work) -> Bounds:
    """The same on a GPU of unknown type: from the fastest to the slowest known one."""
    found = [training_seconds(model, setup, work, gpu) for gpu in CATALOGUE.values()]
    return Bounds(
        lower=min(each.lower for each in found),
        expected=median(each.expected for each in found),
        upper=max(each.upper for each in found),
    )


def scoring_seconds(model: Architecture, setup: Setup, work: Work, gpu: Hardware) -> Bounds:
    """Seconds for a forward pass over ``work.tokens`` on one GPU, as for a reference's log-probabilities."""
    total, peak = work.tokens * _forward(model, work), _peak(setup, gpu)
    return Bounds.of(lambda share: total / (peak * share), _share(model))


def scoring_share(model: Architecture | None, setup: Setup, work: Work) -> float:
    """Operations per token that is only scored, relative to one that is trained on."""
    if model is None:
        return 1 / 3 if setup.variant == "full" else 1 / 2
    return work.tokens * _forward(model, work) / training_flops(model, setup, work)


def _share(model: Architecture) -> Bounds:
    return _SMALL_UTILISATION if model.parameters < _SMALL else _UTILISATION


def _peak(setup: Setup, gpu: Hardware) -> float:
    """Peak of one GPU in the arithmetic of ``setup``."""
    return gpu.peak_flops * (_FLOAT32_SHARE if setup.precision == "fp32" else 1.0)


def seconds_at(rates: Sequence[float], tokens: int, *, converted: bool = False) -> Bounds:
    """Time for ``tokens`` at measured rates (tokens/s): the median, and slightly beyond the fastest and slowest.

    Further beyond them if the rates were ``converted`` from trainings of another shape.
    """
    faster, slower = (1.5, 0.5) if converted else (1.1, 0.75)
    return Bounds(
        lower=tokens / (faster * max(rates)), expected=tokens / median(rates), upper=tokens / (slower * min(rates))
    )


def startup_seconds(weight_bytes: float) -> Bounds:
    """What a training takes besides its steps: starting, reading this many bytes of weights, writing the result."""
    return _START_UP_S + Bounds.of(lambda rate: weight_bytes / rate, _LOADING_BYTES_S)
