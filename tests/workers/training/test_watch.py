"""An exploding loss ends a run before its weights are spoilt; a noisy one does not."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.packs.sampler import Step
from ft_assets.workers.training.divergence import STREAK, Explosion, Watch, clueless_loss
from ft_resources.errors import Diverged
from tests.workers.training.conftest import Bench

pytestmark = pytest.mark.training

CLUELESS = math.log(32_000)


def first_alarm(losses: list[float], clueless: float | None = CLUELESS) -> int | None:
    """The number of the step (from 1) at which an alarm is raised."""
    explosion = Explosion(clueless)
    return next((number for number, loss in enumerate(losses, 1) if explosion.reason(loss)), None)


@given(
    seed=st.integers(0, 2**32 - 1),
    start=st.floats(0.3, CLUELESS),
    end=st.floats(0.01, 3.0),
    noise=st.floats(0.0, 0.6),
    spikes=st.floats(0.0, 0.05),
    epochs=st.integers(1, 4),
)
def test_healthy_curves_however_noisy_raise_no_alarm(
    seed: int, start: float, end: float, noise: float, spikes: float, epochs: int
) -> None:
    """Exponential decay, a drop with each epoch, log-normal noise, and a spike of up to twelve nats now and then."""
    draws = np.random.default_rng(seed)
    steps = np.arange(600)
    curve = end + max(start - end, 0.0) * np.exp(-steps / 60)
    curve *= 0.8 ** (steps * epochs // len(steps))
    noisy = curve * np.exp(noise * draws.standard_normal(len(steps)))
    noisy += (draws.random(len(steps)) < spikes) * draws.uniform(2, 12, len(steps))
    assert first_alarm(np.minimum(noisy, 2 * CLUELESS).tolist()) is None


@given(seed=st.integers(0, 2**32 - 1), before=st.integers(20, 300), level=st.floats(6.0, 11.0))
def test_a_run_that_breaks_down_is_stopped_within_a_streak(seed: int, before: int, level: float) -> None:
    draws = np.random.default_rng(seed)
    healthy = 1.5 * np.exp(0.2 * draws.standard_normal(before))
    broken = level * np.exp(0.05 * draws.standard_normal(50))
    assert first_alarm([*healthy, *broken]) == before + STREAK
    assert first_alarm([*healthy, *broken], clueless=None) == before + STREAK


def test_more_than_twice_what_a_model_that_knows_nothing_has_is_an_alarm_at_once() -> None:
    limit = 2 * CLUELESS
    assert first_alarm([1.0, limit - 0.01, limit + 0.01]) == 3
    assert first_alarm([1.0, limit + 0.01], clueless=None) is None


@pytest.mark.parametrize("before", [1, 5, 19])
def test_a_comparison_that_explodes_in_its_first_steps_is_not_taken_for_noise(before: int) -> None:
    assert first_alarm([math.log(2)] * before + [1e6] * 50, clueless=None) == before + STREAK


def test_what_a_model_that_knows_nothing_loses_follows_the_method() -> None:
    assert clueless_loss({"method": "sft", "preference": None}, 1000) == pytest.approx(math.log(1000))
    assert clueless_loss({"method": "dpo", "preference": {"beta": 0.1}}, 1000) is None
    # So a large beta is not an explosion.
    even = clueless_loss({"method": "orpo", "preference": {"beta": 100.0}}, 1000)
    assert even == pytest.approx(math.log(1000) + 100 * math.log(2))


def test_it_makes_no_difference_where_a_run_was_interrupted(bench: Bench) -> None:
    losses = [1.5] * 40 + [9.0] * STREAK
    for seen in range(len(losses)):
        watch = Watch(bench.pack, 100, CLUELESS, booked(losses[:seen]))
        for loss in losses[seen:-1]:
            watch.require_sound(step(), loss, 1.0)
        assert watch.suspicious
        with pytest.raises(Diverged, match="8 steps in a row") as caught:
            watch.require_sound(step(), losses[-1], 1.0)
    pack = bench.pack
    for index in pack.examples_of([0, 1]).tolist():
        assert f"row {pack.example_row(index)} ({pack.example_id(index)})" in caught.value.what
    assert "learning_rate" in caught.value.remedy


def test_a_step_that_loss_scaling_left_out_counts_no_more_after_a_resume_than_before_it(bench: Bench) -> None:
    """In a run such a step is not checked; its row has a loss but no gradient norm."""
    left_out = [{"step": number, "loss": 9.0} for number in range(41, 41 + STREAK - 1)]
    rows = [*booked([1.5] * 40), *left_out, {"step": 47, "validation_loss": 9.0}]
    watch = Watch(bench.pack, 100, CLUELESS, rows)
    assert not watch.suspicious
    watch.require_sound(step(), 9.0, 1.0)
    assert watch.suspicious, "one of its own is the first of a streak"


def booked(losses: list[float]) -> list[dict[str, float]]:
    """The rows of steps with these losses."""
    return [{"step": number, "loss": loss, "grad_norm": 1.0} for number, loss in enumerate(losses, start=1)]


def test_a_bad_batch_or_two_are_forgotten() -> None:
    explosion = Explosion(CLUELESS)
    for loss in [1.5] * 30 + [9.0] * (STREAK - 1):
        assert explosion.reason(loss) is None
    assert explosion.suspicious
    assert explosion.reason(1.5) is None
    assert not explosion.suspicious


def step() -> Step:
    return Step(number=48, epoch=0, windows=np.array([0, 1]), end=2)
