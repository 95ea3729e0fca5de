"""MFU computed by hand, and none where it would be a guess."""

from dataclasses import replace
from typing import Any

import pytest

from ft_assets.settings.gpus import CATALOGUE, find_hardware
from ft_assets.settings.recipe.training import LoraSettings, TrainingSettings
from ft_assets.workers.model_size.model_size import read_architecture
from ft_assets.workers.model_size.time import Work, training_seconds
from ft_assets.workers.training.telemetry.flops import Yardstick, make_setup
from tests.workers.packs.estimate.made import LLAMA_3_8B

WORK = Work(tokens=1000, steps=1, learned=1.0, document_length=4096)


def setup(variant: str, gpus: int = 1) -> Any:
    params = {
        "variant": variant,
        "training": TrainingSettings(precision="bf16").model_dump(mode="json"),
        "lora": None if variant == "full" else LoraSettings(rank=16).model_dump(mode="json"),
    }
    return make_setup(params, {}, gpus)


def yardstick(variant: str, gpus: int = 1) -> Yardstick:
    return Yardstick(model=read_architecture(LLAMA_3_8B), setup=setup(variant, gpus), gpu=find_hardware("NVIDIA H200"))


@pytest.mark.parametrize(("variant", "each"), [("full", 6), ("lora", 4), ("qlora", 4)])
def test_a_frozen_parameter_counts_four_operations_a_token_and_a_trained_one_six(variant: str, each: int) -> None:
    # Llama-3-8B: 32 layers of 2·4096² + 2·4096·1024 + 3·4096·14336 and a head of 128256·4096; no embedding.
    matrices = 32 * (2 * 4096**2 + 2 * 4096 * 1024 + 3 * 4096 * 14336) + 128256 * 4096
    adapters = 0 if variant == "full" else 32 * 16 * (2 * (4096 + 4096) + 2 * (4096 + 1024) + 3 * (4096 + 14336))
    # Scores and their sum over values, forward and twice backward, over half of the square.
    attention = 3 * 32 * 4 * 4096 * 4096 / 2
    flops = 1000 * (each * matrices + 6 * adapters + attention)
    mfu = yardstick(variant).mfu(WORK, seconds=0.08)
    assert mfu == pytest.approx(flops / (0.08 * 989e12), abs=1e-4)


def test_twice_the_gpus_for_the_same_time_is_half_the_utilisation() -> None:
    one, two = yardstick("full").mfu(WORK, 0.1), yardstick("full", gpus=2).mfu(WORK, 0.1)
    assert one is not None
    assert two == pytest.approx(one / 2, abs=1e-4)


def test_the_expected_speed_is_that_of_the_estimate() -> None:
    full = yardstick("full")
    assert full.model is not None
    seconds = training_seconds(full.model, full.setup, WORK, CATALOGUE["H200"]).expected
    assert full.expected_tokens_per_s(WORK) == 1000 / seconds


def test_on_a_cpu_and_for_a_gpu_or_a_model_that_is_not_known_there_is_no_utilisation() -> None:
    for unknown in (replace(yardstick("lora"), gpu=None), replace(yardstick("lora"), model=None)):
        assert unknown.mfu(WORK, 0.1) is None
        assert unknown.expected_tokens_per_s(WORK) is None
