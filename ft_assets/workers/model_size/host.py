"""What a training needs besides GPUs: host memory, and scratch disk for its saves.

For saves, the first rank copies everything that trains to host memory, whatever the layout (``training/state.py``). For
GPUs the copy is pinned, and PyTorch rounds each pinned tensor up to a power of two. Offloaded inputs of recomputed
layers are pinned too, in each process.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ft_assets.settings.bounds import Bounds
from ft_assets.settings.gpus import GIB
from ft_assets.workers.model_size.memory import Setup, optimizer_states, peak_memory, trained_parameters
from ft_assets.workers.model_size.model_size import Architecture

# A process with its libraries, its CUDA context and what it reads ahead.
_PROCESS = Bounds(lower=1.0 * GIB, expected=3.0 * GIB, upper=6.0 * GIB)
_STORED_BYTES = 2.0


@dataclass(frozen=True, kw_only=True, slots=True)
class HostNeeds:
    """Peak bytes of the first node: ``memory``, and ``disk`` below its scratch folder, without inputs, which come
    through the machine's cache."""

    memory: Bounds
    disk: Bounds


def host_needs(model: Architecture, setup: Setup, *, processes: int, kept: int = 0) -> HostNeeds:
    """The needs of a node with ``processes`` processes; ``kept`` sets of weights are kept besides the last."""
    trained = trained_parameters(model, setup)
    # PiSSA's frozen adapter is saved too.
    fixed = trained if setup.pissa else 0
    exact = setup.bytes_trained * (trained + fixed) + optimizer_states(model, setup, trained)
    # Written in the dtype of the base from another copy on the host; adapters from the weights themselves.
    final = _STORED_BYTES * trained if setup.variant == "full" else 4.0 * (trained + fixed)
    if setup.gpus:
        pinned = max(exact, _pinned(model, setup))
        copies = Bounds(lower=exact, expected=pinned, upper=pinned)
        own = (_PROCESS + _offloaded(model, setup)).times(processes)
    else:
        copies, own = _sure(exact), peak_memory(model, setup).total
    # The newest save, and each set of weights; one more is on its way to the store when weights are kept.
    disk = exact + final * (1 + kept + bool(kept))
    return HostNeeds(memory=own + copies + _sure(final), disk=Bounds(lower=disk, expected=disk, upper=1.05 * disk))


def _sure(value: float) -> Bounds:
    return Bounds(lower=value, expected=value, upper=value)


def _offloaded(model: Architecture, setup: Setup) -> Bounds:
    """Bytes of the offloaded inputs of one process; pinned memory is used again by the next forward pass."""
    if not setup.offload:
        return _sure(0.0)
    layers, size = setup.recomputed(model.layers), setup.residual * setup.tokens * model.hidden
    rounded = 1.0 * layers * (1 << (size - 1).bit_length())
    return Bounds(lower=1.0 * layers * size, expected=rounded, upper=rounded)


def _pinned(model: Architecture, setup: Setup) -> float:
    """Bytes of the pinned copies: of each trained tensor, and of each of its moments where they have its shape."""
    whole = sum(count * (1 << (4 * numbers - 1).bit_length()) for count, numbers in _trained_tensors(model, setup))
    weights = whole * setup.bytes_trained / 4
    if setup.optimizer == "adamw":
        return weights + 2.0 * whole
    return weights + optimizer_states(model, setup, trained_parameters(model, setup))


def _trained_tensors(model: Architecture, setup: Setup) -> Iterator[tuple[int, int]]:
    """(Number of tensors, elements of each); norms and biases are left out."""
    if setup.variant == "full":
        yield 2 - model.tied, model.vocabulary * model.hidden
        yield from ((model.layers, each.experts * each.inputs * each.outputs) for each in model.linears)
        return
    for each in model.adapted(setup.targets):
        for side in (each.inputs, each.outputs):
            yield model.layers * each.experts * each.adapter_ranks, setup.rank * side
