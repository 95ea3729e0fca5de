"""The architectures that may be safe for packing: those whose tokens interact only in softmax attention, or in layers
that can be told where documents begin (``told``).

For all others, documents run apart (``apart.py``).

A state-space, recurrent or convolution layer that is not told carries the end of one document into the next, whatever
the attention does; a bias by distance in the row counts across documents. Cases unknown here are still measured: see
``leak_check``, which compares the losses of documents packed and alone.
"""

# ruff: noqa: TID253 -- imported by workers only, once torch is needed anyway.

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from transformers import PreTrainedModel

from ft_assets.settings.catalogue.composites import COMPOSITES
from ft_resources.errors import BadBase

# Layer types (``config.layer_types``) with softmax attention, over all previous tokens or a window of them.
_ATTENTION_LAYERS = frozenset({"full_attention", "sliding_attention", "attention"})
# Layer types that mix tokens in another way, and may know boundaries.
_WITHOUT_ATTENTION = frozenset({"linear_attention", "mamba", "conv"})
_MIXING_LAYERS = _WITHOUT_ATTENTION | {"hybrid"}
# Types of feed-forward layers, which some configs also list there.
_TOKENWISE_LAYERS = frozenset({"dense", "sparse", "moe", "mlp"})
_LISTS_OF_LAYERS = ("layer_types", "layers_block_type", "block_types")
_MIXING_MODULES = (torch.nn.Conv1d, torch.nn.RNNBase)
REMEDY = "Set packing.mode to apart, or to auto, which the default is."


def require_known(kind: str) -> None:
    """Raise BadBase unless Transformers itself has models of this ``model_type``."""
    from transformers import CONFIG_MAPPING

    if kind not in CONFIG_MAPPING:
        raise BadBase(
            f"this version of Transformers does not include the architecture {kind!r}",
            where="config.json",
            remedy="Choose a base that loads without trust_remote_code.",
        )


def auto_class(kind: str) -> Any:
    """The class that loads models of this ``model_type``. Composites are loaded whole: an adapter's names are then
    those of the model that people and servers load, and a full model loses nothing."""
    from transformers import AutoModelForCausalLM, AutoModelForImageTextToText

    return AutoModelForImageTextToText if kind in COMPOSITES else AutoModelForCausalLM


def causal_class(config: Any) -> Any:
    """The class with which Transformers loads a causal language model of ``config``. Raises BadBase if there is
    none."""
    found = auto_class(config.model_type)._model_mapping
    if type(config) not in found:
        raise BadBase(
            f"{config.model_type} is not a causal language model", where="config.json", remedy="Choose a causal base."
        )
    known: Any = found[type(config)]
    return known[0] if isinstance(known, tuple) else known


def require_causal(config: Any) -> None:
    """Raise BadBase for a model that does not predict each token from those before it alone."""
    name = causal_class(config).__name__
    if getattr(config, "is_encoder_decoder", False):
        reason = f"{name} is an encoder with a decoder"
    elif any(_looks_ahead(part) for part in _parts(config)):
        reason = f"{name} looks ahead"
    else:
        return
    raise BadBase(reason, where="base_model", remedy="Choose a causal language model.")


def require_packable(config: Any, model_class: type, *, max_length: int | None = None) -> None:
    """Raise BadBase if documents that share a row would change each other's losses.

    Args:
        config: the model's (``PretrainedConfig``).
        model_class: the Transformers class that it is loaded as.
        max_length: tokens of the longest possible document; None if that is not known yet.
    """
    reason = _why_not(config, model_class)
    if reason is not None:
        raise BadBase(
            f"documents packed into one row would leak into each other: {reason}", where="base_model", remedy=REMEDY
        )
    limit = length_with_fixed_positions(config)
    if limit is not None and max_length is not None and max_length > limit:
        raise BadBase(
            f"its position encoding changes for the whole row once one document has more than {limit} tokens, "
            f"and packing.max_length is {max_length}",
            where="base_model",
            remedy=f"Set packing.max_length to at most {limit}, or packing.mode to apart.",
        )


def require_packable_modules(model: torch.nn.Module) -> None:
    """Raise BadBase if a built model has a layer that mixes neighbouring tokens and cannot be told of boundaries."""
    model = text_part(model)
    told = tuple(f"{name}." for name, module in model.named_modules() if takes_boundaries(module))
    for name, module in model.named_modules():
        layers = mixing_layers(module.config, type(module)) if isinstance(module, PreTrainedModel) else ""
        if mixes(module) and not name.startswith(told):
            reason = f"{name} ({type(module).__name__}) mixes neighbouring tokens"
        elif layers and not told:
            reason = f"{layers}, which do not receive document boundaries"
        else:
            continue
        raise BadBase(f"this architecture cannot be packed: {reason}", where="base_model", remedy=REMEDY)


def text_part(model: Any) -> torch.nn.Module:
    """The decoder of a composite, as no text passes through its other parts (an audio tower's convolutions); any other
    model as it is."""
    composite = getattr(getattr(model, "config", None), "model_type", None) in COMPOSITES
    found: torch.nn.Module = model.get_decoder() if composite else model
    return found


def mixes(module: torch.nn.Module) -> bool:
    """Whether a layer mixes neighbouring tokens."""
    return isinstance(module, _MIXING_MODULES)


def takes_boundaries(module: torch.nn.Module) -> bool:
    """Whether a module mixes tokens by a layer of its own, and may be told of boundaries."""
    if not any(map(mixes, module.children())):
        return False
    return any(each.kind is each.VAR_KEYWORD for each in inspect.signature(module.forward).parameters.values())


def mixing_layers(config: Any, model_class: Any) -> str:
    """Which layers of an architecture mix tokens other than by attention, as a clause; "" for none."""
    found = {kind for part in _parts(config) for kind in _kinds(part)} & _MIXING_LAYERS
    if found:
        return f"{model_class.__name__} has layers of kind {', '.join(sorted(found))}"
    if getattr(model_class, "_is_stateful", False):
        return f"{model_class.__name__} has state-space or recurrent layers"
    return ""


def length_with_fixed_positions(config: Any) -> int | None:
    """Longest document, in tokens, that does not change the frequencies of its whole row; None for any length.

    Dynamic NTK and LongRoPE choose them by the largest position in the row.
    """
    limits = []
    for part in _parts(config):
        for rope in _ropes(part):
            kind = rope.get("rope_type", rope.get("type"))
            if kind == "longrope":
                limits.append(rope.get("original_max_position_embeddings") or part.max_position_embeddings)
            elif kind is not None and "dynamic" in kind:
                limits.append(part.max_position_embeddings)
    return min(limits, default=None)


def _looks_ahead(part: Any) -> bool:
    # In some families only the tokens of a picture see later ones.
    both_ways = getattr(part, "use_bidirectional_attention", None) not in (None, False, "vision")
    return both_ways or not getattr(part, "is_causal", True)


def _why_not(config: Any, model_class: Any) -> str | None:
    name = model_class.__name__
    for part in _parts(config):
        if other := sorted(_kinds(part) - _ATTENTION_LAYERS - _TOKENWISE_LAYERS - _MIXING_LAYERS):
            return f"{name} has layers of kind {', '.join(other)}"
        if getattr(part, "alibi", False) or getattr(part, "position_embedding_type", None) == "alibi":
            return f"{name} biases attention by the distance in the row (ALiBi)"
        if getattr(part, "attention_chunk_size", None):
            return f"{name} attends in chunks of the row"
    if not model_class._can_set_attn_implementation():
        return f"{name} computes its attention itself and cannot be given another"
    # A model without attention needs no positions.
    attends = any(not _kinds(part) or _kinds(part) - _WITHOUT_ATTENTION for part in _parts(config))
    needed = {"position_ids", "logits_to_keep"} if attends else {"logits_to_keep"}
    missing = needed - set(inspect.signature(model_class.forward).parameters)
    if missing:
        return f"{name} takes no {' and no '.join(sorted(missing, reverse=True))}"
    return None


def _kinds(config: Any) -> set[str]:
    return {kind for key in _LISTS_OF_LAYERS for kind in getattr(config, key, None) or ()}


def _parts(config: Any) -> tuple[Any, ...]:
    """The config and, for multimodal ones, that of the text model."""
    text = config.get_text_config()
    return (config,) if text is config else (config, text)


def _ropes(config: Any) -> Iterator[dict[str, Any]]:
    """The settings of rotary positions; some configs have one set for each layer type."""
    settings = getattr(config, "rope_parameters", None) or {}
    if any(isinstance(value, dict) for value in settings.values()):
        yield from (value for value in settings.values() if isinstance(value, dict))
    else:
        yield settings
