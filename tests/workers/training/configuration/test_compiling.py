"""When ``training.compile: auto`` compiles, and the reason that it gives."""

from typing import Any

import pytest

from ft_assets.control.auto.configure import configure
from tests.workers.packs.estimate.made import LLAMA_3_8B
from tests.workers.training.configuration.made import LLAMA_70B, known, on_gpus, recipe, settled


@pytest.mark.parametrize(
    ("made", "pair", "compiled", "why"),
    [
        (on_gpus(1), known(), "on", "minutes, including a few for compiling"),
        (on_gpus(8, hardware={"sharding": "fsdp"}), known(LLAMA_70B), "on", "minutes"),
        (on_gpus(1), known(windows=20, tokens=80_000), "off", "compiling pays off from 30 minutes"),
        (on_gpus(1, training={"max_steps": 3}), known(), "off", "3 steps take about"),
        (on_gpus(1, "H100", training={"precision": "fp8", "max_steps": 3}), known(), "on", "fp8 is faster than bf16"),
        (recipe(), known(), "off", "not on a CPU"),
        (on_gpus(1, "T4"), known(), "off", "half precision and a GPU that has bf16"),
        (on_gpus(1, training={"precision": "fp32"}), known(), "off", "half precision"),
        (on_gpus(1, packing={"mode": "apart"}), known(), "off", "where documents run apart"),
        (on_gpus(1, variant="qlora"), known(), "off", "4 bits"),
        (on_gpus(8, hardware={"context_parallel": 2}), known(), "off", "GPUs share their windows"),
        (on_gpus(8, variant="full", hardware={"sharding": "zero2"}), known(), "off", "under zero2"),
        (on_gpus(1), known(parameters=8 * 10**9), "off", "not tried"),
        (on_gpus(1), known(None), "off", "an unknown base"),
        (on_gpus(1), known({**LLAMA_3_8B, "head_dim": 260}), "off", "heads of 260 numbers"),
    ],
)
def test_layers_are_compiled_where_attention_is_fused_and_the_training_is_long(
    made: Any, pair: Any, compiled: str, why: str
) -> None:
    configuration = configure(made, pair)
    assert configuration.recipe.training.compile == compiled
    assert why in configuration.origins["training.compile"]


def test_a_recipe_alone_does_not_settle_whether_layers_are_compiled() -> None:
    assert configure(on_gpus(1), None).recipe.training.compile == "auto"
    assert configure(recipe(training={"compile": "on"}), known()).recipe.training.compile == "on"


def test_what_is_compiled_is_not_divided_by_deepspeed() -> None:
    made = [on_gpus(8, "H200", variant="full", training={"compile": value}) for value in ("off", "on")]
    assert [settled(made=each).hardware.sharding for each in made] == ["zero1", "fsdp"]
