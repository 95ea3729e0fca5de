"""Which partition of a GPU a training gets, by its predicted memory."""

from typing import Any

import pytest

from ft_assets.control.auto.configure import Configuration, configure
from ft_assets.control.auto.fitting import best_fit
from ft_assets.settings.recipe.shown import shown_settings
from ft_resources.errors import BadRecipe
from tests.workers.packs.estimate.made import LLAMA_3_8B
from tests.workers.training.configuration.made import known, recipe

SMALL = LLAMA_3_8B | {
    "hidden_size": 896,
    "num_hidden_layers": 24,
    "num_attention_heads": 14,
    "num_key_value_heads": 2,
    "intermediate_size": 4864,
}
PARTS = ["H100-3g.40gb", "H100-1g.10gb"]


def of_parts(model: Any = SMALL, *, parts: list[str] = PARTS, length: int = 1024, **changes: Any) -> Configuration:
    hardware = {"gpus": 1, "gpu_type": "H100", "parts": parts}
    return configure(recipe(packing={"max_length": length}, hardware=hardware, **changes), known(model))


@pytest.mark.parametrize(
    ("model", "length", "gpu"),
    [(SMALL, 1024, "H100-1g.10gb"), (LLAMA_3_8B, 1024, "H100-3g.40gb"), (LLAMA_3_8B, 8192, "H100")],
)
def test_a_training_gets_the_smallest_part_that_surely_holds_it(model: Any, length: int, gpu: str) -> None:
    found = of_parts(model, length=length)
    assert found.recipe.hardware.gpu_type == gpu
    assert best_fit(found.recipe, known(model)).sure
    assert found.larger_gpu_type == (None if gpu == "H100" else "H100")
    (why,) = [why for path, _, why in shown_settings(found.recipe, found.origins) if path == "hardware.gpu_type"]
    said = "no part is certain to fit" if gpu == "H100" else "the smallest part that is certain to fit the training, at"
    assert why.startswith(f"auto: {said}")


def test_a_part_recomputes_no_more_than_a_whole_gpu() -> None:
    """With every layer recomputed it would fit the smaller partition, but take longer."""
    of_part = recipe(packing={"max_length": 4096}, hardware={"gpus": 1, "gpu_type": "H100-3g.40gb"})
    assert best_fit(configure(of_part, known()).recipe, known()).sure
    assert configure(of_part, known()).recipe.training.recompute == "on"
    free, asked = of_parts(LLAMA_3_8B, length=4096), of_parts(LLAMA_3_8B, length=4096, training={"recompute": "on"})
    assert (free.recipe.hardware.gpu_type, free.recipe.training.recompute) == ("H100", "off")
    assert asked.recipe.hardware.gpu_type == "H100-3g.40gb"


def test_a_part_trains_as_exactly_as_a_whole_gpu() -> None:
    full: dict[str, Any] = {"variant": "full", "training": {"recompute": "on", "offload": "off"}}
    whole, part = of_parts(parts=[], **full).recipe, of_parts(parts=["H100-1g.10gb", "H100-2g.20gb"], **full).recipe
    assert part.hardware.gpu_type == "H100-2g.20gb"
    assert (part.training.weights, part.training.optimizer) == (whole.training.weights, whole.training.optimizer)


def test_where_the_base_is_not_known_it_is_the_whole_gpu() -> None:
    assert of_parts(None).recipe.hardware.gpu_type == "H100"


def test_what_is_settled_once_stays() -> None:
    found = of_parts(LLAMA_3_8B)
    assert configure(found.recipe, known()).recipe == found.recipe


@pytest.mark.parametrize(
    ("hardware", "problem"),
    [
        ({"gpus": 2, "gpu_type": "H100", "parts": PARTS}, "parts of GPUs cannot train together"),
        ({"gpus": 1, "nodes": 2, "gpu_type": "H100", "parts": PARTS}, "parts of GPUs cannot train together"),
        ({"gpus": 1, "parts": PARTS}, "not a known part of gpu_type None"),
        ({"gpus": 1, "gpu_type": "H100", "parts": ["A100-80-1g.10gb"]}, "not a known part of gpu_type H100"),
        ({"gpus": 1, "gpu_type": "H100", "parts": ["H100"]}, "not a known part of gpu_type H100"),
        ({"gpus": 1, "gpu_type": "H100", "parts": [PARTS[0], PARTS[0]]}, "twice"),
    ],
)
def test_parts_are_parts_of_the_one_gpu_that_is_asked_for(hardware: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadRecipe, match=problem):
        recipe(hardware=hardware)
