"""Peak memory of a training step, from what PyTorch keeps at each point: the numbers behind "does it fit".

The count of activations follows Korthikanti et al. 2022, "Reducing Activation Recomputation in Large Transformer
Models" (https://arxiv.org/abs/2205.05198), section 4, which sums what each operation of a layer saves for its backward
pass. Three things differ here: attention is fused, or holds the scores of one layer at a time, so nothing else grows
with the square of a document's length; the feed-forward part has a gate, as in Llama; and only the positions trained on
go through the output head.
``docs/explanation/estimates.md`` has the table and its error against measured steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from ft_assets.settings.bounds import NOTHING, Bounds
from ft_assets.settings.gpus import GIB
from ft_assets.workers.model_size.model_size import Architecture

Variant = Literal["full", "lora", "qlora"]
Shards = Literal["none", "zero1", "zero2", "zero3", "fsdp", "hsdp"]
TrainedIn = Literal["float32", "bfloat16"]
Optimizer = Literal["adamw", "adamw_8bit", "adafactor", "muon"]

_WHOLE_GRADIENTS, _CUT_WEIGHTS = ("none", "zero1"), ("zero3", "fsdp", "hsdp")

# NF4 with double quantisation (Dettmers et al. 2023, https://arxiv.org/abs/2305.14314): 4 bits per weight, 8 bits per
# 64 weights, 32 bits per 64 x 256.
NF4_BYTES = (4 + 8 / 64 + 32 / (64 * 256)) / 8
# log-softmax, its gradient and the gradient of the logits are in memory at the same time, in float32.
_LOGIT_BYTES = 12
# Numbers of a moment in 8 bits that share a scale in float32 (bitsandbytes).
_BLOCK = 256
LOGITS_AT_ONCE = 1 << 26
"""Logits that are computed at once: 256 MiB in float32. Changing it changes the last bits of results."""
# CUDA context and workspaces of libraries; on a CPU, the process with its libraries.
_GPU_OVERHEAD = Bounds(lower=0.4 * GIB, expected=1.0 * GIB, upper=2.0 * GIB)
_CPU_OVERHEAD = Bounds(lower=0.5 * GIB, expected=0.7 * GIB, upper=1.6 * GIB)
# On a CPU the C library keeps what a step frees, in pieces too small for the next step's tensors: measured processes
# held 1.04 to 1.9 times their gradients' and activations' bytes, and kept them when nothing was left alive.
_CPU_KEPT = Bounds(lower=1.0, expected=1.2, upper=1.65)
_NOTHING_KEPT = Bounds(lower=1.0, expected=1.0, upper=1.0)
# Bounds around the sum: operators that keep more or less than these, and on a GPU what the allocator cannot use.
_SLACK = Bounds(lower=0.85, expected=1.03, upper=1.2)
_ROUGH_SLACK = Bounds(lower=0.5, expected=1.1, upper=1.8)


@dataclass(frozen=True, kw_only=True, slots=True)
class Setup:
    """What memory depends on besides the architecture.

    Args:
        precision: arithmetic of training. A frozen base is held in it.
        weights: in which those that train, and their gradients, are held; bfloat16 for full training only.
        targets: which matrices get adapters: ``all-linear`` or module names.
        dora, pissa: the kind of adapters, see ``LoraSettings``.
        tokens: per forward pass of one GPU; learned: the share of them that is trained on, with bounds.
        accumulates: whether an optimizer step sums the gradients of several forward passes.
        recompute: every how many layers one's activations are recomputed in the backward pass (gradient checkpointing);
            0: none.
        offload: whether the inputs of the recomputed layers are in host memory until the backward pass.
        scores: bytes of one layer's attention scores, where no fused function computes them.
        gpus: those that hold one copy of the model; 0 means training on a CPU.
        shards: what the GPUs divide among them: optimizer states, gradients too, or weights too (ZeRO 1-3 as DeepSpeed
            does them, https://arxiv.org/abs/1910.02054; FSDP divides everything).
    """

    variant: Variant
    precision: Literal["fp32", "bf16"]
    tokens: int
    learned: Bounds
    weights: TrainedIn = "float32"
    optimizer: Optimizer = "adamw"
    rank: int = 0
    targets: str | Sequence[str] = "all-linear"
    dropout: bool = False
    dora: bool = False
    pissa: bool = False
    accumulates: bool = True
    recompute: int = 0
    offload: bool = False
    scores: Bounds = NOTHING
    gpus: int = 1
    shards: Shards = "none"

    @property
    def bytes_each(self) -> int:
        """Bytes per number in the arithmetic of training."""
        return 4 if self.precision == "fp32" else 2

    @property
    def bytes_trained(self) -> int:
        """Bytes per number that trains, and of its gradient."""
        return 2 if self.weights == "bfloat16" else 4

    def recomputed(self, layers: int) -> int:
        """How many of a model's layers are recomputed."""
        return -(-layers // self.recompute) if self.recompute else 0

    @property
    def residual(self) -> int:
        """Bytes per number of the rows between layers: embedding and normalisation keep the precision of the trained
        weights, so float32 weights give float32 rows."""
        return self.bytes_trained if self.variant == "full" else self.bytes_each


@dataclass(frozen=True, kw_only=True, slots=True)
class Memory:
    """Peak bytes of one device: the expected parts, and their sum with bounds."""

    weights: float
    gradients: float
    optimizer: float
    activations: float
    overhead: float
    total: Bounds


def peak_memory(model: Architecture, setup: Setup) -> Memory:
    """The peak of a training step: everything permanent, with the activations at the end of a forward pass."""
    trained = trained_parameters(model, setup)
    ranks = max(setup.gpus, 1)
    weights = _weights(model, setup, trained) / (ranks if setup.shards in _CUT_WEIGHTS else 1)
    gradients = 1.0 * setup.bytes_trained * trained / (1 if setup.shards in _WHOLE_GRADIENTS else ranks)
    optimizer = optimizer_states(model, setup, trained) / (ranks if setup.shards != "none" else 1)
    if setup.shards.startswith("zero"):
        # DeepSpeed updates a copy of its piece of the weights.
        optimizer += 4.0 * trained / ranks
    casts = _casts(model, setup, trained)

    def peak(learned: float, scores: float, slack: float, kept: float) -> float:
        forward = casts + _activations(model, setup, learned, scores)
        # Without accumulation the gradients are allocated while the activations are freed.
        step = gradients + forward if setup.accumulates else max(gradients, forward)
        return slack * (weights + optimizer + kept * step)

    slack = _ROUGH_SLACK if model.rough else _SLACK
    kept, overhead = (_NOTHING_KEPT, _GPU_OVERHEAD) if setup.gpus else (_CPU_KEPT, _CPU_OVERHEAD)
    return Memory(
        weights=weights,
        gradients=gradients,
        optimizer=optimizer,
        activations=casts + _activations(model, setup, setup.learned.expected, setup.scores.expected),
        overhead=overhead.expected,
        total=Bounds.of(peak, setup.learned, setup.scores, slack, kept) + overhead,
    )


def trained_parameters(model: Architecture, setup: Setup) -> int:
    """The number of parameters that an optimizer step changes."""
    if setup.variant == "full":
        return model.parameters
    lengths = model.layers * sum(linear.outputs for linear in model.adapted(setup.targets)) if setup.dora else 0
    return model.adapter_parameters(setup.rank, setup.targets) + lengths


def _weights(model: Architecture, setup: Setup, trained: int) -> float:
    held = model.parameters + model.frozen
    if setup.variant == "full":
        return 1.0 * setup.bytes_trained * held
    if setup.variant == "lora":
        # PiSSA has an adapter as large that is frozen.
        return setup.bytes_each * held + (8.0 if setup.pissa else 4.0) * trained
    return NF4_BYTES * (model.matrices + model.frozen) + 2.0 * (model.parameters - model.matrices) + 4.0 * trained


def optimizer_states(model: Architecture, setup: Setup, trained: int) -> float:
    """Bytes: two moments in float32 for AdamW, or in 8 bits with a scale for each block, but for embeddings; one for
    Muon's matrices; a row and a column each for Adafactor (https://arxiv.org/abs/1804.04235)."""
    if setup.optimizer == "adamw":
        return 8.0 * trained
    if setup.optimizer == "muon" and setup.variant == "full":
        single = sum(linear.inputs * linear.outputs for linear in model.linears if linear.experts == 1)
        return 8.0 * trained - 4.0 * model.layers * single
    if setup.optimizer == "adamw_8bit":
        embedding = model.vocabulary * model.hidden if setup.variant == "full" else 0
        return 8.0 * embedding + 2.0 * (1 + 4 / _BLOCK) * (trained - embedding)
    if setup.variant == "full":
        sides = sum(linear.experts * (linear.inputs + linear.outputs) for linear in model.linears)
        return 4.0 * (model.layers * sides + (2 - model.tied) * (model.vocabulary + model.hidden))
    # One side of an adapter's matrix is the rank, so the other saves little.
    return 4.0 * trained / max(setup.rank, 1) + 4.0 * setup.rank * 2 * len(model.linears) * model.layers


def _activations(model: Architecture, setup: Setup, learned: float, scores: float) -> float:
    """The peak bytes of activations: when the loss is computed, or in the first layer of the backward pass."""
    residual, layer = setup.residual, _layer(model, setup)
    again = setup.recomputed(model.layers)
    # Of inputs on the host, that of one layer is on the device at a time.
    inputs = min(again, 1) if setup.offload else again
    layers = inputs * residual * model.hidden + (model.layers - again) * layer
    rotations = 2 * setup.bytes_each * model.head_dim
    final_norm = (4 + (residual if setup.variant == "full" else 0)) * model.hidden
    logits = min(learned * setup.tokens * model.vocabulary, max(LOGITS_AT_ONCE, model.vocabulary))
    loss = final_norm + learned * setup.bytes_each * model.hidden + _LOGIT_BYTES * logits / setup.tokens
    # Gradients of the feed-forward part's rows; adapters in bf16 add another set in float32.
    gradients = 2 * setup.bytes_each + (2 if setup.variant != "full" and setup.precision == "bf16" else 0)
    backward = gradients * model.intermediate + 8 * model.hidden + (layer if setup.recompute else 0)
    # Scores are computed again while those of the feed-forward part are gone.
    last = max(setup.tokens * max(loss, backward), scores)
    return max(setup.tokens * (layers + rotations + 16) + last, setup.tokens * layers + _update(model, setup))


def _update(model: Architecture, setup: Setup) -> float:
    """Bytes of DoRA's update of a whole matrix, to measure its rows: an identity, the update and two sums with it."""
    if setup.variant == "full" or not setup.dora:
        return 0.0
    return max(
        (4.0 * each.inputs * (each.inputs + 3 * each.outputs) for each in model.adapted(setup.targets)), default=0.0
    )


def _layer(model: Architecture, setup: Setup) -> float:
    """Bytes per token that one layer keeps for its backward pass."""
    each, hidden = setup.bytes_each, model.hidden
    query, key = model.heads * model.head_dim, model.kv_heads * model.head_dim
    # Normalisation keeps its rows in float32, and the normalised rows too if its weights are trained.
    norms = 2 * hidden * (4 + (setup.bytes_trained if setup.variant == "full" else 0))
    # Queries, keys, values, the result, and one float32 for each head and token (the log of the softmax's sum).
    attention = each * (2 * query + 2 * key) + 4 * model.heads
    # The gate before and after its activation function, and the up projection that it multiplies.
    feed_forward = each * (3 if model.gated else 1) * model.intermediate
    return norms + attention + feed_forward + _inputs(model, setup) + _adapters(model, setup) + 8


def _inputs(model: Architecture, setup: Setup) -> float:
    """Bytes per token of the rows that matrices keep to compute their gradients; frozen ones keep none.

    Matrices that read the same rows share them. Under autocast each makes its own copy in bf16 of float32 rows.
    """
    reading = model.linears if setup.variant == "full" else model.adapted(setup.targets)
    if setup.precision == "bf16" and setup.weights == "float32":
        return sum(2.0 * linear.inputs * linear.active for linear in reading)
    shared = {linear.reads: linear.inputs * linear.active for linear in reading}
    return 1.0 * setup.bytes_each * sum(shared.values())


def _adapters(model: Architecture, setup: Setup) -> float:
    """Bytes per token between the two matrices of each adapter, and dropout's masks; DoRA scales the results of both
    base and adapter, and keeps them."""
    if setup.variant == "full":
        return 0.0
    adapted = model.adapted(setup.targets)
    between = sum(setup.rank * linear.adapter_ranks * linear.active for linear in adapted)
    masks = sum(linear.inputs * linear.active for linear in adapted) if setup.dropout else 0
    scaled = sum(2 * linear.outputs * linear.active for linear in adapted) if setup.dora else 0
    return setup.bytes_each * (between + scaled) + masks


def _casts(model: Architecture, setup: Setup, trained: int) -> float:
    """Bytes of weights in the arithmetic of training, in addition to the permanent ones.

    Autocast keeps a bf16 copy of weights that train in float32 until the end of the forward pass, but of only one of
    the layers that are recomputed. A quantised matrix is unpacked when it is used. With sharded weights, a layer and
    the next one are gathered.
    """
    if setup.variant == "full":
        again = setup.recomputed(model.layers)
        kept = model.layers - again + bool(again)
        casts = setup.precision == "bf16" and setup.weights == "float32"
        copies = 2.0 * (kept / model.layers * model.matrices + model.vocabulary * model.hidden) if casts else 0.0
    else:
        copies = (4.0 if setup.pissa else 2.0) * trained if setup.precision == "bf16" else 0.0
    if setup.variant == "qlora":
        copies += 2.0 * max(linear.inputs * linear.outputs for linear in model.linears)
    if setup.shards in _CUT_WEIGHTS:
        return min(copies, 4.0 * model.matrices / model.layers) + 2 * setup.bytes_each * model.matrices / model.layers
    return copies
