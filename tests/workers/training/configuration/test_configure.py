"""The values of ``auto``, and the reasons given for them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.auto.configure import configure
from ft_assets.settings.recipe.training import SettledLora, SettledTraining
from ft_assets.workers.model_size.known import known_pair
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
    ("windows", "batch"),
    [(1, 1), (39, 2), (640, 64), (20_000, 64), (128_000, 128), (10**6, 256), (10**9, 256)],
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
