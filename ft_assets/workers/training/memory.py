"""Out-of-memory errors, with the figures that a person needs to decide what to change."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ft_assets.settings.catalogue.methods import METHODS
from ft_resources.errors import OutOfMemory


@contextmanager
def memory_explained(params: dict[str, Any], runtime: dict[str, Any], micro_windows: int) -> Iterator[None]:
    """Turn a library's out-of-memory error into OutOfMemory.

    ``runtime["predicted_memory_bytes"]``, if given, is the predicted need of the training with its full micro-batch
    (``runtime["micro_batch_size"]``).
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise _too_large(params, runtime, micro_windows) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` is a library's out-of-memory error."""
    text = str(error).lower()
    return type(error).__name__ == "OutOfMemoryError" or isinstance(error, MemoryError) or "allocate memory" in text


def _too_large(params: dict[str, Any], runtime: dict[str, Any], micro_windows: int) -> OutOfMemory:
    device = runtime["device"]
    predicted = runtime.get("predicted_memory_bytes")
    expected = f"{_gib(predicted)} were predicted" if predicted else "nothing was predicted"
    whole = runtime.get("micro_batch_size", micro_windows)
    if predicted and whole != micro_windows:
        expected += f" with {whole} windows"
    kind = "GPU memory" if device == "cuda" else "memory"
    return OutOfMemory(
        f"training with {micro_windows} window(s) in a forward pass does not fit into the {device}'s memory: it had "
        f"{_gib(_peak_bytes(device))} of {kind} at its peak and needed more; {expected}",
        where="training.micro_batch_size",
        remedy=f"{_remedy(params, runtime, micro_windows)} Make a new recipe version of it, or use larger hardware.",
    )


def _remedy(params: dict[str, Any], runtime: dict[str, Any], micro_windows: int) -> str:
    """The cheapest effective way to lower memory that is still available and that the recipe allows."""
    ways = ["packing.max_length"]
    if micro_windows > 1:
        ways.insert(0, f"training.micro_batch_size (to {max(micro_windows // 2, 1)} or less)")
    lower = f"Lower {' or '.join(ways)}."
    forbidden = runtime.get("origins", {}).get("training.recompute") == "recipe"
    if not runtime.get("recompute") and not forbidden:
        lower = f"Set training.recompute: on, which keeps fewer activations and takes longer. {lower}"
    elif runtime["device"] == "cuda" and runtime.get("recompute") and not runtime.get("offload"):
        lower += " Or set training.offload: on, which holds what recomputation keeps in host memory."
    elif runtime["device"] == "cuda" and micro_windows == 1 and METHODS[params["method"]].token_mean:
        # Only the windows' length is left to lower.
        more = 2 * int(runtime.get("context_parallel", 1))
        lower += f" Or let {more} GPUs of a node share each window: hardware.context_parallel: {more}."
    if params["variant"] == "full" and "training.weights" not in runtime.get("origins", {}):
        lower = f"{lower} Or set training.weights and training.optimizer to auto, for the most exact ones that fit."
    smaller = {"full": "variant lora, which", "lora": "variant qlora, which"}.get(params["variant"])
    return f"{lower} Or choose {smaller} holds far less." if smaller else lower


def _peak_bytes(device: str) -> int:
    """Peak memory of this process: the GPU's, or the machine's."""
    if device == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak if sys.platform == "darwin" else peak * 1024


def _gib(value: float) -> str:
    return f"{value / 2**30:.2f} GiB"
