"""What the rules may look at beside the recipe: the base's architecture and the size of the data."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ft_assets.packs.estimate.bounds import Bounds
from ft_assets.packs.estimate.hardware import CATALOGUE, Hardware, find_hardware
from ft_assets.packs.estimate.model_size import Architecture, read_architecture
from ft_assets.recipes.hardware import HardwareSettings
from ft_assets.recipes.models import Recipe

# The smallest of the usual GPUs that compute in bf16: what fits it fits whatever a cluster gives.
_SMALLEST = CATALOGUE["A10"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """A pair, as far as it is known.

    Args:
        model: None where neither config.json nor the number of parameters is there.
        examples: to train on; 0 where unknown.
        windows: of one epoch; for preferences, pairs.
        tokens: of one epoch.
        learned: share of the tokens that is learned; the bounds are those of a single forward pass.
        counted: whether the numbers are the pack's, not a guess.
    """

    model: Architecture | None
    examples: int
    windows: int
    tokens: int
    learned: Bounds
    counted: bool

    @property
    def said(self) -> str:
        """A word before a number that is only guessed."""
        return "" if self.counted else "about "


def known_pair(pack_facts: Mapping[str, Any], base_facts: Mapping[str, Any], config: bytes | None) -> Known:
    """From the facts of the pair's token pack and of its base, and the base's ``config.json`` (None: it has none)."""
    tokens = max(1, int(pack_facts.get("tokens", 1)))
    share = min(1.0, pack_facts.get("learned_tokens", tokens) / tokens)
    return Known(
        model=_architecture(config, base_facts.get("parameters")),
        examples=int(pack_facts.get("examples", pack_facts.get("documents", 0))),
        windows=max(1, int(pack_facts.get("windows", 1))),
        tokens=tokens,
        # A window may hold little else than answers, and the largest forward pass decides.
        learned=Bounds(lower=share, expected=share, upper=1.0),
        counted=True,
    )


def gpu_of(hardware: HardwareSettings) -> tuple[Hardware | None, bool]:
    """The type of GPU to reckon with, None on a CPU; and whether the recipe names it."""
    if not hardware.gpus:
        return None, True
    named = find_hardware(hardware.gpu_type) if hardware.gpu_type else None
    return (named, True) if named else (_SMALLEST, False)


def documents_of(recipe: Recipe) -> int:
    """How many documents, each as long as a window may be, one window of the pack holds at most."""
    return 2 if recipe.method in ("dpo", "orpo") else 1


def _architecture(config: bytes | None, parameters: int | None) -> Architecture | None:
    try:
        value = json.loads(config or b"{}")
    except ValueError:
        value = {}
    return read_architecture(value if isinstance(value, dict) else {}, parameters)
