"""Compile the layers of a model by ``torch.compile``, each by itself, as torchtitan does: all have the same code, so
one layer is compiled, and the others run the result.

The numbers of tokens and documents in a row are dynamic, so other lengths need no new compilation. There are a handful
of variants: with gradients or without (validation), several documents in the row or one, and the first layer of a
frozen base, whose input needs no gradient.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

from collections.abc import Callable
from functools import partial
from types import MethodType
from typing import Any

import torch
from transformers.modeling_layers import GradientCheckpointingLayer

_VARIANTS = 32
"""Most variants of a layer, including those of sliding windows; further ones are computed uncompiled."""


def compile_layers(model: Any) -> list[Any]:
    """Compile the layers of ``model`` in place when they are first called; returns them.

    Hooks and recomputation stay outside the compiled code: shards of FSDP2 are gathered before it. Names of weights
    stay. Results differ from uncompiled ones by rounding only; dropout draws the same numbers.
    """
    from torch._dynamo import config
    from torch._inductor import config as compiler

    config.recompile_limit = _VARIANTS
    compiler.fallback_random = True
    layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    for layer in layers:
        layer.forward = partial(_forward, layer, torch.compile(MethodType(_own_forward(layer), layer), dynamic=True))
    return layers


def forgive_later_failures() -> None:
    """From now on, a variant that cannot be compiled is computed uncompiled, with a warning."""
    from torch._dynamo import config

    config.suppress_errors = True


def uncompile(layers: list[Any]) -> None:
    """Let ``layers`` compute as before they were compiled."""
    for layer in layers:
        del layer.forward


def _forward(layer: Any, compiled: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Like Transformers' own: recomputed in the backward pass if that is switched on."""
    if layer.gradient_checkpointing and layer.training:
        return layer._gradient_checkpointing_func(partial(compiled, **kwargs), *args)
    return compiled(*args, **kwargs)


def _own_forward(layer: Any) -> Callable[..., Any]:
    """The layer's forward inside Transformers' wrappers for recomputation, one for each subclass."""
    forward: Any = type(layer).forward
    while forward.__code__.co_name == "forward_with_checkpointing":
        forward = forward.__wrapped__
    own: Callable[..., Any] = forward
    return own
