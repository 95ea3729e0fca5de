"""What planning knows besides the recipe: the base's architecture and the size of the data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ft_assets.settings.bounds import Bounds
from ft_assets.settings.catalogue.composites import parsed, text_settings
from ft_assets.settings.catalogue.families import changed_scores, has_experts, packed_by_kernels, why_apart
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.gpus import CATALOGUE, Hardware, find_hardware
from ft_assets.settings.recipe.hardware import HardwareSettings
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.model_size import Architecture, read_architecture

# Bytes a score, counted: the softmax, the gradients of both, in float32, and copies in half precision; a softcap keeps
# its hyperbolic tangent too.
_WITH_SINKS, _SOFTCAPPED = 12.5, 16.5
# The smallest of the usual GPUs that compute in bf16: what fits it fits whichever GPU a cluster provides.
_SMALLEST = CATALOGUE["A10"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What is known about a pair.

    Args:
        model: None if neither config.json nor the number of parameters is available.
        examples: to train on; 0 if unknown.
        windows: per epoch; for preferences, pairs.
        tokens: per epoch.
        learned: share of the tokens that is trained on; the bounds are those of a single forward pass.
        counted: whether the numbers come from the pack and are not a guess.
        apart: why documents of the base run apart; "" where they are packed, or where only a trial will tell.
        kernels: whether a GPU's kernels may pack them all the same.
        scores: bytes in which attention that changes its scores holds those of two tokens, of all heads; else 0.
        experts: whether its layers have experts, as far as config.json says.
    """

    model: Architecture | None
    examples: int
    windows: int
    tokens: int
    learned: Bounds
    counted: bool
    apart: str = ""
    kernels: bool = False
    scores: float = 0.0
    experts: bool = False

    @property
    def said(self) -> str:
        """The word before a number that is only guessed."""
        return "" if self.counted else "about "


def known_base(config: bytes | None) -> Known:
    """What a base's ``config.json`` alone says (None: it has none). The figures about data mean nothing."""
    return known_pair({}, {}, config)


def known_pair(pack_facts: Mapping[str, Any], base_facts: Mapping[str, Any], config: bytes | None) -> Known:
    """From the facts of the pair's token pack and base, and the base's ``config.json`` (None if it has none)."""
    tokens = max(1, int(pack_facts.get("tokens", 1)))
    share = min(1.0, pack_facts.get("learned_tokens", tokens) / tokens)
    return Known(
        model=read_architecture(parsed(config), base_facts.get("parameters")),
        examples=int(pack_facts.get("examples", pack_facts.get("documents", 0))),
        windows=max(1, int(pack_facts.get("windows", 1))),
        tokens=tokens,
        # A window may hold almost only answers, and the largest forward pass decides.
        learned=Bounds(lower=share, expected=share, upper=1.0),
        counted=True,
        apart=why_apart(config),
        kernels=packed_by_kernels(config),
        scores=score_bytes(config),
        experts=has_experts(parsed(config)),
    )


def gpu_of(hardware: HardwareSettings) -> tuple[Hardware | None, bool]:
    """The type of GPU to assume, None on a CPU; and whether the recipe names it."""
    if not hardware.most_gpus:
        return None, True
    named = find_hardware(hardware.gpu_type) if hardware.gpu_type else None
    return (named, True) if named else (_SMALLEST, False)


def documents_of(recipe: Recipe) -> int:
    """How many documents of the maximum length fit into one window of the pack."""
    return METHODS[recipe.method].form.documents


def score_bytes(config: bytes | None) -> float:
    """Of two tokens and all heads, while the backward pass computes a layer's scores again (``isolation.scores``)."""
    values = parsed(config)
    what = changed_scores(values)
    heads = text_settings(values).get("num_attention_heads")
    if not what or not isinstance(heads, int):
        return 0.0
    return heads * (_SOFTCAPPED if "softcap" in what else _WITH_SINKS)
