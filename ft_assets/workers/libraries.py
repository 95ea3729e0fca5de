"""How the heavy libraries are kept quiet and quick, and older ones are called; import this before them."""

import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

from ft_resources.errors import UserError

# Transformers, PEFT and Accelerate import these wherever they are installed, which takes seconds; a run in one
# process without quantisation uses none of them.
UNUSED = ("deepspeed", "bitsandbytes", "torchao")
COMPILES = find_spec("numba") is not None
"""Whether there is a compiler for kernels. The control plane's image has none, and does its little work without."""
_ALLOCATOR = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
"""The name, and its older one."""


def keep_offline() -> None:
    """A worker talks to nothing but the store: no telemetry, no look-ups on the hub, no forks of the tokenizer. For
    processes of their own: what they start stays offline too."""
    os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", TOKENIZERS_PARALLELISM="false")


def grow_segments(device: str) -> None:
    """Let PyTorch's allocator on a GPU grow its segments, so that rows of changing lengths leave fewer gaps between
    them (https://docs.pytorch.org/docs/stable/notes/cuda.html). For this process and those it starts, before PyTorch
    is imported; not where the environment already configures the allocator."""
    if device == "cuda" and not any(name in os.environ for name in _ALLOCATOR):
        os.environ.update(dict.fromkeys(_ALLOCATOR, "expandable_segments:True"))


def require_device(device: str) -> None:
    """Raise UserError if ``device`` is cuda and this worker has no GPU; let PyTorch compute reproducibly on a CPU."""
    import torch

    if device == "cuda" and not torch.cuda.is_available():
        raise UserError(
            "this worker has no usable GPU",
            where="hardware.device",
            remedy="Run it on a machine with a GPU, or use device cpu.",
        )
    torch.use_deterministic_algorithms(device == "cpu")


@contextmanager
def absent(*packages: str) -> Iterator[None]:
    """While inside, ``packages`` look as if they were not installed, unless they are imported already.

    The libraries remember what they saw, so in this process they go on without them afterwards.
    """
    hidden = [name for name in packages if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None is Python's mark for "do not import"
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name) is None:
                sys.modules.pop(name, None)


@cache
def accepts(function: Callable[..., Any], parameter: str) -> bool:
    """Whether the installed ``function`` has the parameter. PyTorch 2.11, the oldest, names some otherwise."""
    return parameter in inspect.signature(function).parameters
