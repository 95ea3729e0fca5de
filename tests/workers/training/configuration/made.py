"""Recipes and pairs for tests of the rules."""

from typing import Any

from ft_assets.control.auto.configure import configure
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.model_size.known import Known
from ft_assets.workers.model_size.model_size import read_architecture, rough
from ft_resources.strict import parse_strict
from tests.workers.packs.estimate.made import LLAMA_3_8B, share

LLAMA_70B: dict[str, Any] = LLAMA_3_8B | {
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "intermediate_size": 28672,
}


def recipe(**changes: Any) -> Recipe:
    return parse_strict(Recipe, {"key": "tiny.v1", "base": "folder:./base", **changes}, "recipe.yaml")


def on_gpus(gpus: int, gpu_type: str | None = "A100-80", **changes: Any) -> Recipe:
    return recipe(**{**changes, "hardware": {"gpus": gpus, "gpu_type": gpu_type, **changes.get("hardware", {})}})


def known(config: dict[str, Any] | None = LLAMA_3_8B, *, parameters: int | None = None, **changes: Any) -> Known:
    """A pair on an 8B Llama with much data, unless said otherwise; ``parameters`` make up a rough model."""
    model = rough(parameters) if parameters else read_architecture(config) if config else None
    facts = {"examples": 50_000, "windows": 20_000, "tokens": 80_000_000, "learned": share(0.3), "counted": True}
    return Known(**{"model": model, **facts, **changes})


def settled(pair: Any = None, made: Any = None, **changes: Any) -> Any:
    """The recipe with every ``auto`` settled for the pair."""
    return configure(made or recipe(**changes), pair or known()).recipe
