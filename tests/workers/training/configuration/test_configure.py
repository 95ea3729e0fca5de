"""The values of ``auto``, and the reasons given for them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.auto.configure import Configuration, configure
from ft_assets.control.auto.fitting import best_fit
from ft_assets.settings.recipe.hardware import GpuRange, HardwareSettings
from ft_assets.settings.recipe.shown import shown_settings
from ft_assets.settings.recipe.training import SettledLora, SettledTraining
from ft_assets.workers.model_size.known import known_pair
from ft_resources.errors import BadRecipe, UserError
from tests.workers.packs.estimate.made import LLAMA_3_8B
from tests.workers.training.configuration.made import LLAMA_70B, known, on_gpus, recipe, settled


@pytest.mark.parametrize(
    ("method", "full", "adapters"),
    [("sft", 2e-5, 2e-4), ("cpt", 2e-5, 2e-4), ("dpo", 5e-7, 5e-6), ("orpo", 5e-6, 5e-5)],
)
def test_the_rate_follows_method_and_variant(method: str, full: float, adapters: float) -> None:
    assert settled(method=method, variant="full").training.learning_rate == full
    for variant in ("lora", "qlora"):
        assert settled(method=method, variant=variant).training.learning_rate == adapters


@pytest.mark.parametrize(("examples", "epochs"), [(1, 3), (10_000, 3), (10_001, 1), (10**7, 1), (0, 1)])
def test_more_than_ten_thousand_examples_are_read_once(examples: int, epochs: int) -> None:
    assert settled(known(examples=examples)).training.epochs == epochs


@pytest.mark.parametrize("method", ["dpo", "kto"])
@pytest.mark.parametrize(("windows", "batch"), [(80, 2), (200, 4), (800, 16), (801, 16), (60_000, 64)])
def test_methods_of_small_steps_have_enough_of_them_for_little_data(method: str, windows: int, batch: int) -> None:
    found = settled(known(examples=windows, windows=windows), method=method, training={"micro_batch_size": 1})
    assert found.training.global_batch_size == batch


@pytest.mark.parametrize("method", ["cpt", "dpo"])
def test_text_and_preferences_are_read_once_however_few(method: str) -> None:
    assert settled(known(examples=10), method=method).training.epochs == 1


@pytest.mark.parametrize(
    ("windows", "batch"), [(1, 1), (39, 2), (640, 64), (20_000, 64), (128_000, 128), (10**6, 256), (10**9, 256)]
)
def test_the_batch_grows_with_the_data_and_leaves_an_epoch_ten_steps(windows: int, batch: int) -> None:
    assert settled(known(windows=windows)).training.global_batch_size == batch


def test_a_batch_is_a_multiple_of_what_one_pass_of_all_gpus_takes() -> None:
    assert settled(made=on_gpus(6)).training.global_batch_size == 66
    assert settled(training={"micro_batch_size": 7}).training.global_batch_size == 70
    assert settled(made=on_gpus(6, hardware={"nodes": 3})).training.global_batch_size == 72


def test_memory_is_divided_between_the_gpus_of_all_nodes() -> None:
    """The weights of 70 billion parameters with their states: too much for eight of these GPUs."""
    made = {nodes: on_gpus(8, variant="full", hardware={"nodes": nodes}) for nodes in (1, 4)}
    one, four = (configure(made[nodes], known(LLAMA_70B)).origins["hardware.sharding"] for nodes in (1, 4))
    assert one.startswith("auto: fsdp over 8 GPUs: about")
    assert four.startswith("auto: fsdp over 32 GPUs: at most")


@pytest.mark.parametrize(("parameters", "rank"), [(7 * 10**9, 16), (13 * 10**9, 16), (70 * 10**9, 32)])
def test_large_bases_get_larger_ranks_and_alpha_is_twice_the_rank(parameters: int, rank: int) -> None:
    lora = settled(known(parameters=parameters)).lora
    assert (lora.rank, lora.alpha, lora.target_modules) == (rank, 2 * rank, "all-linear")
    assert settled(known(parameters=parameters), lora={"use_rslora": True}).lora.alpha == 8


@pytest.mark.parametrize(
    ("hardware", "precision"),
    [
        ({}, "fp32"),
        ({"gpus": 1}, "bf16"),
        ({"gpus": 1, "gpu_type": "H100"}, "bf16"),
        ({"gpus": 1, "gpu_type": "V100-16"}, "fp16"),
        ({"gpus": 1, "gpu_type": "Tesla T4"}, "fp16"),
    ],
)
def test_the_precision_is_what_the_gpu_computes_in(hardware: dict[str, Any], precision: str) -> None:
    assert settled(hardware=hardware).training.precision == precision


def test_what_is_written_is_kept_and_said_to_be() -> None:
    written = {"rank": 3, "alpha": 5, "dropout": 0.0, "target_modules": ["q_proj"]}
    training = {"learning_rate": 1e-3, "epochs": 7, "global_batch_size": 12, "micro_batch_size": 4, "recompute": "on"}
    found = configure(recipe(lora=written, training=training), known())
    assert found.recipe.lora.model_dump() == {**written, "target_modules": ("q_proj",)}
    for name, value in training.items():
        assert getattr(found.recipe.training, name) == value
        assert found.origins[f"training.{name}"] == "recipe"


def test_a_guess_is_called_one() -> None:
    assert "about 500 examples" in configure(recipe(), known(examples=500, counted=False)).origins["training.epochs"]
    assert "auto: 500 examples" in configure(recipe(), known(examples=500)).origins["training.epochs"]


def test_a_pair_is_known_by_its_pack_and_its_base() -> None:
    facts = {"examples": 12, "tokens": 1000, "windows": 4, "learned_tokens": 250}
    pair = known_pair(facts, {"parameters": 8_030_261_248}, None)
    assert (pair.examples, pair.windows, pair.tokens, pair.learned.expected) == (12, 4, 1000, 0.25)
    assert pair.model is not None
    assert pair.model.rough
    assert known_pair(facts, {}, b"[1]").model is None
    assert known_pair(facts, {}, b"no json").model is None


autos = st.fixed_dictionaries(
    {"method": st.sampled_from(["sft", "cpt", "dpo", "orpo"]), "variant": st.sampled_from(["full", "lora", "qlora"])},
    optional={
        "packing": st.fixed_dictionaries({"max_length": st.sampled_from([16, 512, 4096, 131_072])}),
        "training": st.fixed_dictionaries(
            {},
            optional={
                "epochs": st.just("auto") | st.integers(1, 5),
                "global_batch_size": st.just("auto") | st.integers(1, 300),
                "optimizer": st.sampled_from(["auto", "adamw", "adamw_8bit", "adafactor"]),
                "weights": st.sampled_from(["auto", "float32"]),
                "recompute": st.sampled_from(["auto", "on", "off"]),
                "recompute_every": st.just("auto") | st.integers(1, 8),
            },
        ),
        "hardware": st.fixed_dictionaries(
            {"gpus": st.just(1)}, optional={"gpu_type": st.sampled_from(["T4", "H100", "V100-32", "unheard-of"])}
        ),
    },
)
pairs = st.builds(
    lambda parameters, windows, examples, counted: known(
        None, parameters=parameters, windows=windows, examples=examples, tokens=windows * 50, counted=counted
    ),
    st.none() | st.integers(10**6, 10**12),
    st.integers(1, 10**7),
    st.integers(0, 10**8),
    st.booleans(),
)


@given(autos, pairs)
def test_whatever_the_pair_nothing_is_left_open_and_it_works(changes: dict[str, Any], pair: Any) -> None:
    found = configure(recipe(**changes, gates={"task_gain": {"metric": "perplexity"}}), pair)
    again = configure(found.recipe, pair)
    assert again.recipe == found.recipe
    SettledTraining.model_validate(found.recipe.training.model_dump())
    SettledLora.model_validate(found.recipe.lora.model_dump())
    batch, micro = found.recipe.training.global_batch_size, found.recipe.training.micro_batch_size
    assert isinstance(batch, int)
    assert isinstance(micro, int)
    assert batch % micro == 0
    values = [*found.recipe.training.model_dump().values(), *found.recipe.hardware.model_dump().values()]
    assert "auto" not in values
    for path, origin in found.origins.items():
        assert origin in ("recipe", "default") or len(origin) > len("auto: ") + 5, path
    require_possible(found.recipe, pair)


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


@pytest.mark.parametrize(
    ("fewest", "most", "sizes"),
    [(1, 8, (8, 4, 2, 1)), (2, 8, (8, 4, 2)), (3, 8, (8, 4)), (1, 6, (6, 3)), (1, 2, (2, 1))],
)
def test_sizes_are_the_largest_as_often_halved_as_it_goes(fewest: int, most: int, sizes: tuple[int, ...]) -> None:
    found = recipe(hardware={"gpus": {"min": fewest, "max": most}}).hardware
    assert found.sizes == sizes
    assert (found.most_gpus, found.all_gpus, found.world, found.elastic) == (most, most, most, True)


@pytest.mark.parametrize("gpus", [{"min": 5, "max": 8}, {"min": 1, "max": 7}, {"min": 4, "max": 2}])
def test_a_range_with_one_size_is_refused(gpus: dict[str, int]) -> None:
    with pytest.raises(UserError, match="a single size only"):
        recipe(hardware={"gpus": gpus})


@pytest.mark.parametrize("gpus", [{"min": 0, "max": 8}, {"min": 2, "max": 16}, {"min": 2}, -1, 9, "8"])
def test_what_is_no_number_of_gpus_is_refused(gpus: object) -> None:
    with pytest.raises(UserError, match="gpus"):
        recipe(hardware={"gpus": gpus})


def test_a_number_is_stored_as_before_and_is_not_elastic() -> None:
    found = HardwareSettings(gpus=4)
    assert found.model_dump(mode="json")["gpus"] == 4
    assert (found.sizes, found.elastic, found.resources(4, elastic=True).gpu_sizes) == ((4,), False, ())


def test_only_a_training_takes_what_there_is() -> None:
    found = HardwareSettings(gpus=GpuRange(min=2, max=8), nodes=2)
    assert found.resources(8, elastic=True).gpu_sizes == (8, 4, 2)
    assert found.resources(1).gpu_sizes == ()


def test_weights_of_an_elastic_training_are_whole_on_each_gpu() -> None:
    made = settled(hardware={"gpus": {"min": 2, "max": 8}, "gpu_type": "H100"})
    assert made.hardware.sharding == "none"
    assert made.training.global_batch_size % 8 == 0


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
