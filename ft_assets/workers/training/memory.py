"""Running out of memory, said with the figures that a person needs to choose what to change."""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ft_assets.worker import OutOfMemory


@contextmanager
def memory_explained(params: dict[str, Any], runtime: dict[str, Any], micro_windows: int) -> Iterator[None]:
    """Raise OutOfMemory for whatever a library raises where memory does not suffice.

    ``runtime["predicted_memory_bytes"]``, where it is there, is what the training was predicted to need with its whole
    micro-batch (``runtime["micro_batch_size"]``).
    """
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        raise _too_large(params, runtime, micro_windows) from error


def is_out_of_memory(error: BaseException) -> bool:
    """Whether ``error`` is one of the ways in which a library says that memory does not suffice."""
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
    """What lowers memory most at the least cost, given what is left to lower and what the recipe forbids."""
    ways = ["packing.max_length"]
    if micro_windows > 1:
        ways.insert(0, f"training.micro_batch_size (to {max(micro_windows // 2, 1)} or less)")
    lower = f"Lower {' or '.join(ways)}."
    forbidden = runtime.get("origins", {}).get("training.recompute") == "recipe"
    if not runtime.get("recompute") and not forbidden:
        lower = f"Set training.recompute: on, which keeps fewer activations and takes longer. {lower}"
    smaller = {"full": "variant lora, which", "lora": "variant qlora, which"}.get(params["variant"])
    return f"{lower} Or choose {smaller} holds far less." if smaller else lower


def _peak_bytes(device: str) -> int:
    """The most that this process has held: of the GPU's memory, or of the machine's."""
    if device == "cuda":
        import torch

        return int(torch.cuda.max_memory_allocated())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak if sys.platform == "darwin" else peak * 1024


def _gib(value: float) -> str:
    return f"{value / 2**30:.2f} GiB"
