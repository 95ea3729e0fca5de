"""The values of ``auto`` that make a training fit: the most exact ones, and of those the cheapest."""

from typing import Any

import pytest

from ft_assets.control.auto.configure import configure
from ft_assets.control.auto.fitting import expected_memory, fit_of
from ft_assets.control.auto.resolve import training_settings
from ft_assets.settings.recipe.shown import shown_settings
from tests.workers.packs.estimate.made import LLAMA_3_8B
from tests.workers.training.configuration.made import LLAMA_70B, known, on_gpus, recipe, settled


def test_activations_are_computed_again_only_where_they_do_not_fit() -> None:
    long = {"packing": {"max_length": 4096}}
    roomy = configure(recipe(**long, hardware={"gpus": 1, "gpu_type": "H200"}), known())
    tight = configure(recipe(**long, hardware={"gpus": 1, "gpu_type": "L40S"}), known())
    assert roomy.recipe.training.recompute == "off"
    assert roomy.origins["training.recompute"].startswith("auto: not needed: at most")
    assert tight.recipe.training.recompute == "on"
    assert tight.origins["training.recompute"].startswith("auto: without it the training might not fit")


@pytest.mark.parametrize(
    ("length", "gpu", "written", "recompute", "every"),
    [
        (4096, "H100", {}, "off", 1),
        (4096, "L40S", {}, "on", 2),
        (8192, "H100", {}, "on", 4),
        (8192, "L40S", {}, "on", 1),
        (8192, "H100", {"recompute_every": 3}, "on", 3),
        (8192, "H100", {"recompute": "on"}, "on", 1),
        (8192, "H100", {"recompute": "on", "recompute_every": 8}, "on", 8),
        (4096, "H100", {"recompute_every": 3}, "off", 3),
    ],
)
def test_only_as_many_layers_are_computed_again_as_must_be(
    length: int, gpu: str, written: dict[str, Any], recompute: str, every: int
) -> None:
    made = recipe(packing={"max_length": length}, training=written, hardware={"gpus": 1, "gpu_type": gpu})
    found = configure(made, known())
    training = found.recipe.training
    assert (training.recompute, training.recompute_every) == (recompute, every)
    if every > 1 and not written:
        assert found.origins["training.recompute_every"].startswith(f"auto: 1 of {every} layers: at most")


@pytest.mark.parametrize(
    ("length", "gpu", "written", "recompute", "offload"),
    [
        (4096, "L4", {}, "on", "on"),
        (8192, "L40S", {}, "on", "off"),
        # Nothing fits for certain, so the setting with the lowest memory.
        (16_384, "L4", {}, "on", "on"),
        (16_384, "L4", {"offload": "off"}, "on", "off"),
        (4096, "L4", {"recompute": "off"}, "off", "off"),
        (4096, "H100", {"recompute": "on", "offload": "on"}, "on", "on"),
        (4096, "H100", {"offload": "on"}, "off", "on"),
    ],
)
def test_activations_wait_on_the_host_only_where_nothing_else_fits(
    length: int, gpu: str, written: dict[str, Any], recompute: str, offload: str
) -> None:
    made = recipe(packing={"max_length": length}, training=written, hardware={"gpus": 1, "gpu_type": gpu})
    found = configure(made, known(LLAMA_3_8B))
    training = found.recipe.training
    assert (training.recompute, training.offload) == (recompute, offload)
    assert fit_of(found.recipe).offload is (recompute == offload == "on")
    if "offload" not in written:
        why = "a faster setting might not fit: " if offload == "on" else "not needed"
        assert found.origins["training.offload"].startswith(f"auto: {why}")


def test_offloading_comes_before_less_exact_moments() -> None:
    """Memory that only offloading saves, besides the two settings that change the result."""
    made = on_gpus(4, "H100", variant="full", packing={"max_length": 65_536}, training=EITHER)
    found = settled(known(LLAMA_3_8B), made).training
    assert (found.weights, found.optimizer, found.offload) == ("float32", "adamw", "on")


def test_a_cpu_computes_nothing_again_and_offloads_nothing() -> None:
    training = settled().training
    assert (training.recompute, training.offload) == ("off", "off")
    assert not any(fit_of(settled(training=written)).offload for written in ({}, {"recompute": "on"}))


@pytest.mark.parametrize(
    ("config", "variant", "gpus", "sharding"),
    [
        (LLAMA_3_8B, "lora", 1, "none"),
        (LLAMA_3_8B, "lora", 8, "none"),
        (LLAMA_3_8B, "full", 8, "fsdp"),
        (LLAMA_3_8B | {"num_hidden_layers": 6}, "full", 8, "none"),
        (LLAMA_3_8B | {"num_hidden_layers": 12}, "full", 8, "zero1"),
        (LLAMA_70B, "lora", 8, "fsdp"),
        (LLAMA_70B, "qlora", 8, "none"),
    ],
)
def test_as_little_is_divided_as_fits(config: dict[str, Any], variant: str, gpus: int, sharding: str) -> None:
    made = on_gpus(gpus, variant=variant, packing={"max_length": 4096})
    assert settled(known(config), made).hardware.sharding == sharding


EITHER = {"weights": "auto", "optimizer": "auto"}


@pytest.mark.parametrize(
    ("gpus", "gpu", "weights", "optimizer", "sharding"),
    [
        (1, "B200", "float32", "adamw", "none"),
        (4, "H100", "float32", "adamw", "fsdp"),
        (1, "H200", "float32", "adamw_8bit", "none"),
        (2, "H100", "float32", "adamw", "fsdp"),
        (3, "L40S", "bfloat16", "adamw", "fsdp"),
        (1, "H100", "bfloat16", "adamw_8bit", "none"),
        # Nothing fits, so the setting with the lowest memory.
        (1, "A10", "bfloat16", "adamw_8bit", "none"),
    ],
)
def test_auto_gives_up_no_more_exactness_of_an_8b_than_it_must_and_says_why(
    gpus: int, gpu: str, weights: str, optimizer: str, sharding: str
) -> None:
    made = on_gpus(gpus, gpu, variant="full", packing={"max_length": 4096}, training=EITHER)
    found = configure(made, known(LLAMA_3_8B))
    assert (found.recipe.training.weights, found.recipe.training.optimizer) == (weights, optimizer)
    assert found.recipe.hardware.sharding == sharding
    for name, value in (("weights", "bfloat16"), ("optimizer", "adamw_8bit")):
        chosen, origin = getattr(found.recipe.training, name), found.origins[f"training.{name}"]
        told = "a higher precision might not fit: " if chosen == value else f"{chosen} is the most exact: "
        assert origin.startswith(f"auto: {told}")
        assert f"GiB of one {gpu}" in origin


@pytest.mark.parametrize(
    "changes",
    [
        {"variant": "lora"},
        {"variant": "full", "training": {"precision": "fp32"}},
        {"variant": "full", "hardware": {"gpus": 0}},
        {"variant": "full", "hardware": {"gpus": 2, "sharding": "zero3"}},
        {"variant": "full", "training": {"optimizer": "muon"}},
        {"variant": "full", "training": {"weights": "float32"}},
    ],
)
def test_auto_leaves_in_float32_what_bfloat16_is_not_for_and_what_is_written(changes: dict[str, Any]) -> None:
    training = EITHER | changes.get("training", {})
    made = recipe(**{"hardware": {"gpus": 1, "gpu_type": "A10"}} | changes | {"training": training})
    found = configure(made, known()).recipe.training
    assert found.weights == "float32"


def test_without_auto_a_training_that_does_not_fit_is_as_exact_as_ever() -> None:
    found = settled(made=on_gpus(1, "A10", variant="full")).training
    assert (found.weights, found.optimizer) == ("float32", "adamw")


def test_weights_and_optimizer_that_auto_leaves_as_they_are_make_the_same_training() -> None:
    plain, auto = (
        training_settings(settled(made=on_gpus(8, "H100", variant="full", training=training)))
        for training in ({}, EITHER)
    )
    assert plain == auto
    assert "weights" not in plain["training"]


def test_what_auto_left_as_it_is_is_shown_with_its_reason() -> None:
    found = configure(on_gpus(8, "H100", variant="full", training=EITHER), known())
    shown = {path: (value, why) for path, value, why in shown_settings(found.recipe, found.origins)}
    value, why = shown["training.weights"]
    assert value == "float32"
    assert why.startswith("auto: float32 is the most exact: at most")
    plain = configure(on_gpus(8, "H100", variant="full"), known())
    assert "training.weights" not in [path for path, _, _ in shown_settings(plain.recipe, plain.origins)]


@pytest.mark.parametrize(("nodes", "sharding"), [(1, "fsdp"), (2, "hsdp"), (16, "hsdp")])
def test_several_nodes_have_a_copy_each_where_one_fits(nodes: int, sharding: str) -> None:
    made = on_gpus(8, "H100", variant="full", packing={"max_length": 4096}, hardware={"nodes": nodes})
    assert settled(known(LLAMA_3_8B), made).hardware.sharding == sharding


def test_where_a_node_has_no_room_for_a_copy_all_nodes_share_one() -> None:
    made = on_gpus(8, "H100", variant="full", packing={"max_length": 4096}, hardware={"nodes": 8})
    assert settled(known(LLAMA_70B), made).hardware.sharding == "fsdp"


def test_gpus_that_share_their_windows_hold_a_part_of_the_tokens_each_and_count_as_one_reader() -> None:
    def found(gpus: int, together: int, **changes: Any) -> Any:
        hardware = {"sharding": "none", "context_parallel": together}
        return configure(on_gpus(gpus, packing={"max_length": 16_384}, hardware=hardware, **changes), known())

    one = {"training": {"micro_batch_size": 1, "global_batch_size": 8, "recompute": "on"}}
    alone, shared = found(2, 1, **one), found(8, 4, **one)
    longer = configure(on_gpus(2, packing={"max_length": 4096}, hardware={"sharding": "none"}, **one), known())
    assert shared.memory_bytes == longer.memory_bytes < alone.memory_bytes
    # 16,384 tokens on each of 4 GPUs keep them busy.
    busy = found(8, 4, variant="qlora")
    assert "tokens a forward pass of 4 GPUs" in busy.origins["training.micro_batch_size"]
    assert found(6, 2).recipe.training.global_batch_size == 66
    assert all(each.recipe.hardware.context_parallel == 4 for each in (shared, busy))
    assert settled(made=on_gpus(8, packing={"max_length": 131_072})).hardware.context_parallel == 1


@pytest.mark.parametrize("sharding", ["zero1", "zero2"])
def test_what_does_not_divide_adapters_is_not_reckoned_to(sharding: str) -> None:
    def memory(sharding: str) -> int | None:
        hardware = {"sharding": sharding}
        made = on_gpus(8, variant="lora", lora={"rank": 256}, training={"micro_batch_size": 1}, hardware=hardware)
        return expected_memory(configure(made, known()).recipe, known())

    assert memory(sharding) == memory("none")
    assert memory("fsdp") != memory("none")


def test_micro_batches_shrink_with_the_room_and_divide_the_batch() -> None:
    sizes = [
        settled(hardware={"gpus": 1, "gpu_type": name}, packing={"max_length": 1024}).training.micro_batch_size
        for name in ("H200", "A100-40", "L4")
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    assert settled(training={"global_batch_size": 6}).training.micro_batch_size == 3


def test_unknown_gpus_are_taken_for_small_ones() -> None:
    some = settled(hardware={"gpus": 1}, packing={"max_length": 4096})
    small = settled(hardware={"gpus": 1, "gpu_type": "A10"}, packing={"max_length": 4096})
    assert some.training == small.training
