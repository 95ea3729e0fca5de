"""Time: operations by hand, bounds that enclose what was measured elsewhere, and what never shortens a training."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.planning.predict import Fits, predict
from ft_assets.settings.bounds import Bounds
from ft_assets.settings.gpus import CATALOGUE, find_hardware
from ft_assets.workers.model_size.time import (
    Work,
    any_gpu_seconds,
    cpu_seconds,
    scoring_seconds,
    scoring_share,
    seconds_at,
    startup_seconds,
    training_flops,
    training_seconds,
)
from tests.workers.packs.estimate.made import LLAMA_3_8B, llama, setup

H100 = CATALOGUE["H100"]


def work(**changes: Any) -> Work:
    values: dict[str, Any] = {"tokens": 10**6, "steps": 10, "learned": 1.0, "document_length": 0.0}
    return Work(**values | changes)


def test_a_trained_parameter_costs_six_operations_a_token_and_the_embedding_none() -> None:
    model = llama(**LLAMA_3_8B)
    computed = model.parameters - model.by_kind["embedding"] - model.by_kind["norm"]
    full = training_flops(model, setup(variant="full", precision="bf16"), work())
    assert full == pytest.approx(6 * computed * 10**6)
    # The usual rule of thumb says 6 x 8.03e9; the look-up of the embedding is what it counts too much.
    assert full == pytest.approx(6 * 8.03e9 * 10**6, rel=0.07)


def test_the_demos_trainings_on_two_cores_lie_in_the_rough_range() -> None:
    """Measured: 285,204 tokens in 140 steps took 60 s, and 81,444 in 40 took 13 s."""
    demo = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 640}
    model = llama(**{**LLAMA_3_8B, **demo, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 3072})
    for tokens, steps, seconds in ((285_204, 140, 60.5), (81_444, 40, 12.9)):
        found = cpu_seconds(model, setup(), work(tokens=tokens, steps=steps, document_length=80.0), cores=2)
        assert found.lower < seconds < found.upper


def test_a_gpu_of_no_known_type_is_between_the_slowest_and_the_fastest() -> None:
    model = llama(**LLAMA_3_8B)
    found = any_gpu_seconds(model, setup(gpus=1), work())
    for name in ("T4", "A100-80", "B200"):
        each = training_seconds(model, setup(gpus=1), work(), CATALOGUE[name])
        assert found.lower <= each.lower <= each.upper <= found.upper


def test_a_frozen_parameter_costs_four_and_its_adapter_six() -> None:
    model = llama(**LLAMA_3_8B)
    computed = model.parameters - model.by_kind["embedding"] - model.by_kind["norm"]
    lora = training_flops(model, setup(rank=16), work())
    assert lora == pytest.approx((4 * computed + 6 * model.adapter_parameters(16, "all-linear")) * 10**6)


def test_only_learned_tokens_pass_the_head() -> None:
    model = llama(**LLAMA_3_8B)
    none, half = (training_flops(model, setup(variant="full"), work(learned=share)) for share in (0.0, 0.5))
    assert half - none == pytest.approx(6 * 0.5 * 128256 * 4096 * 10**6)


def test_attention_costs_half_of_the_square_of_each_document() -> None:
    model = llama(**LLAMA_3_8B)
    without, with_it = (
        training_flops(model, setup(variant="full"), work(document_length=length)) for length in (0.0, 4096.0)
    )
    # PaLM, appendix B: 12 x layers x width x length for training, without the causal mask; half of it with.
    assert with_it - without == pytest.approx(6 * 32 * 4096 * 4096 * 10**6)


@pytest.mark.parametrize(
    ("gpu", "variant", "measured"),
    [
        # Tokens/s, the best published of Llama-3-8B's shape that we know of.
        ("H200", "full", 10_471),
        ("H100", "lora", 12_473),
    ],
)
def test_published_rates_of_an_8b_model_lie_within_the_bounds(gpu: str, variant: Any, measured: float) -> None:
    how = setup(variant=variant, precision="bf16", rank=16, gpus=1)
    read = work(tokens=10**8, steps=400, document_length=1000.0)
    found = training_seconds(llama(**LLAMA_3_8B), how, read, CATALOGUE[gpu])
    assert found.lower < 10**8 / measured < found.upper


@given(
    variant=st.sampled_from(["full", "lora", "qlora"]),
    recompute=st.integers(0, 5),
    gpus=st.integers(1, 32),
    more=st.integers(1, 10**6),
)
def test_more_work_never_takes_less_time(variant: Any, recompute: bool, gpus: int, more: int) -> None:
    model, how, read = llama(), setup(variant=variant, gpus=gpus, recompute=recompute), work()
    now = training_seconds(model, how, read, H100)

    def not_less(then: Bounds) -> bool:
        return now.lower <= then.lower and now.expected <= then.expected and now.upper <= then.upper

    assert not_less(training_seconds(model, how, replace(read, tokens=read.tokens + more), H100))
    assert not_less(training_seconds(model, how, replace(read, steps=read.steps + more), H100))
    assert not_less(training_seconds(model, how, replace(read, document_length=float(more)), H100))
    assert not_less(training_seconds(model, how, replace(read, validation_tokens=more), H100))
    assert not_less(training_seconds(llama(num_hidden_layers=2 + more), how, read, H100))
    assert not_less(training_seconds(model, replace(how, recompute=True), read, H100))
    assert not_less(training_seconds(model, replace(how, offload=True), read, H100))


def test_offloaded_inputs_go_to_the_host_and_back() -> None:
    model, read = llama(**LLAMA_3_8B), work(tokens=10**9)
    here, there = (
        training_seconds(model, setup(precision="bf16", gpus=2, recompute=1, offload=offload), read, H100).expected
        for offload in (False, True)
    )
    # 32 layers of 4,096 numbers of 2 bytes for each token of a GPU, both ways, at 25 GB/s.
    assert there - here == pytest.approx(2 * 32 * 4096 * 2 * 10**9 / 2 / 25e9)


def test_more_gpus_take_less_time_and_not_fewer_gpu_hours() -> None:
    model, read = llama(**LLAMA_3_8B), work(tokens=10**9)
    found = [predict(model, setup(precision="bf16", rank=16, gpus=gpus), read, H100) for gpus in (1, 2, 8)]
    assert all(each.seconds and each.gpu_hours for each in found)
    seconds = [each.seconds.expected for each in found if each.seconds]
    hours = [each.gpu_hours.expected for each in found if each.gpu_hours]
    assert seconds == sorted(seconds, reverse=True)
    assert hours == sorted(hours)


def test_measured_rates_are_used_instead_of_the_formula() -> None:
    found = predict(llama(), setup(gpus=2), work(tokens=7200), H100, rates=[1.0, 2.0, 4.0])
    assert found.seconds == seconds_at([1.0, 2.0, 4.0], 7200)
    assert found.seconds.expected == 3600
    assert found.gpu_hours is not None
    assert found.gpu_hours.expected == pytest.approx(2 * (3600 + startup_seconds(0).expected) / 3600)


@pytest.mark.parametrize("scored", [0, 7200])
def test_an_hour_in_a_part_is_its_share_of_a_gpu_hour(scored: int) -> None:
    part = find_hardware("H100-1g.10gb")
    assert part is not None
    whole, small = (
        predict(llama(), setup(gpus=1), work(tokens=7200), gpu, rates=[2.0], scored_tokens=scored)
        for gpu in (H100, part)
    )
    assert whole.gpu_hours is not None
    assert small.seconds == whole.seconds
    assert small.gpu_hours == whole.gpu_hours.times(1 / 7)


def test_a_cpu_takes_no_gpu_hours_and_fits_nothing() -> None:
    found = predict(llama(), setup(gpus=0), work(), None)
    assert (found.gpu_hours, found.fits, found.seconds) == (Bounds(lower=0, expected=0, upper=0), None, None)
    assert found.memory is not None


def test_an_unknown_gpu_or_model_is_not_guessed_at() -> None:
    assert predict(llama(), setup(gpus=1), work(), None).gpu_hours is None
    nothing = predict(None, setup(gpus=1), work(), H100)
    assert (nothing.memory, nothing.fits, nothing.gpu_hours) == (None, None, None)


@pytest.mark.parametrize(
    ("variant", "tokens", "gpu", "fits"),
    [
        ("full", 4096, "T4", Fits.NO),
        ("full", 4096, "H100", Fits.NO),
        ("lora", 4096, "H200", Fits.YES),
        ("qlora", 512, "A10G", Fits.YES),
        ("lora", 16_500, "H200", Fits.PROBABLY),
        ("lora", 18_500, "H200", Fits.PROBABLY_NOT),
    ],
)
def test_an_8b_model_fits_where_people_train_it(variant: Any, tokens: int, gpu: str, fits: Fits) -> None:
    how = setup(variant=variant, precision="bf16", tokens=tokens, rank=16, gpus=1)
    assert predict(llama(**LLAMA_3_8B), how, work(), CATALOGUE[gpu]).fits is fits


@pytest.mark.parametrize("wrong", [(-1, 0, 0), (2, 1, 3), (0, 2, 1), (float("nan"), 1, 2)])
def test_bounds_that_do_not_rise_are_a_mistake(wrong: tuple[float, float, float]) -> None:
    with pytest.raises(ValueError, match="bounds must rise"):
        Bounds(lower=wrong[0], expected=wrong[1], upper=wrong[2])


def test_a_scored_token_costs_two_operations_a_parameter_on_one_gpu() -> None:
    model = llama(**LLAMA_3_8B)
    computed = model.parameters - model.by_kind["embedding"] - model.by_kind["norm"]
    found = [scoring_seconds(model, setup(precision="bf16", rank=16, gpus=gpus), work(), H100) for gpus in (1, 8)]
    assert found[0].expected == pytest.approx(2 * computed * 10**6 / (0.4 * H100.peak_flops))
    assert found[0] == found[1]
    full = setup(variant="full", precision="bf16")
    assert scoring_share(model, full, work()) == pytest.approx(1 / 3)
    assert scoring_share(None, full, work()) == pytest.approx(1 / 3)
    assert scoring_share(None, setup(rank=16), work()) == pytest.approx(1 / 2)


def test_a_reference_adds_a_worker_on_one_gpu_and_no_time_to_train() -> None:
    model, how = llama(**LLAMA_3_8B), setup(precision="bf16", rank=16, gpus=8)
    without, with_it = (predict(model, how, work(), H100, scored_tokens=tokens) for tokens in (0, 10**9))
    assert without.seconds == with_it.seconds
    assert without.gpu_hours is not None
    assert with_it.gpu_hours is not None
    alone = scoring_seconds(model, how, work(tokens=10**9), H100) + startup_seconds(0)
    assert with_it.gpu_hours.expected - without.gpu_hours.expected == pytest.approx(alone.expected / 3600)


def test_where_trainings_were_measured_a_reference_is_scored_at_their_rate() -> None:
    how = setup(variant="full", gpus=2)
    without, with_it = (
        predict(None, how, work(tokens=7200), None, rates=[2.0], scored_tokens=tokens) for tokens in (0, 7200)
    )
    assert without.gpu_hours is not None
    assert with_it.gpu_hours is not None
    # Two GPUs train 2 tokens/s; one of them scores three times its half.
    extra = 7200 / 3 * 2 / 2.0 + startup_seconds(0).expected
    assert with_it.gpu_hours.expected - without.gpu_hours.expected == pytest.approx(extra / 3600)
