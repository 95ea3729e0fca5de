"""What is read off a training's curves, and what is not."""

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.rejections.curves import Curves, Point, read_curves


def falling(steps: int, start: float = 3.0, end: float = 0.5, *, noise: float = 0.0, seed: int = 0) -> list[Point]:
    """A training loss that falls as exponentials do, by less and less."""
    draws = random.Random(seed)
    rate = math.log(start / end) / steps
    return [(step, start * math.exp(-rate * step) + draws.gauss(0, noise)) for step in range(1, steps + 1)]


def validated(*losses: float, every: int = 10) -> tuple[Point, ...]:
    return tuple((every * place, loss) for place, loss in enumerate(losses, start=1))


def test_a_validation_loss_that_turns_up_names_its_step_and_one_that_wobbles_or_rises_with_training_does_not() -> None:
    curves = Curves(training=tuple(falling(60)), validation=validated(2.0, 1.6, 1.4, 1.5, 1.7, 2.1))
    overfit = curves.overfit()
    assert (overfit.step, overfit.steps, overfit.best, overfit.last) == (30, 60, 1.4, 2.1)
    assert curves.still_falling() is None, "who overfits is not told to train longer"
    training = tuple(falling(60))
    for losses in ((2.0, 1.6, 1.4, 1.39, 1.38, 1.385), (2.0, 1.4, 1.6, 1.5, 1.3, 1.2), (1.4,), ()):
        assert Curves(training=training, validation=validated(*losses)).overfit() is None, losses
    rising = tuple((step, 1.0 + step / 20) for step in range(1, 61))
    assert Curves(training=rising, validation=validated(1.5, 1.4, 1.6, 2.0, 2.5, 3.0)).overfit() is None


def test_a_run_validated_once_shows_by_the_gap_that_it_learned_by_heart() -> None:
    assert Curves(training=tuple(falling(40, end=0.05)), validation=((40, 2.2),)).memorised() is not None
    assert Curves(training=tuple(falling(40, end=1.5)), validation=((40, 2.2),)).memorised() is None


def test_a_loss_still_falling_at_the_end_is_told_from_one_that_has_settled() -> None:
    steep = Curves(training=tuple(falling(100, 3.0, 0.5, noise=0.02)))
    share = steep.still_falling()
    assert share is not None
    assert share == pytest.approx(0.164, abs=0.03), "a tenth of ln 6 is a fall by 16 %"
    settled = Curves(training=tuple((step, 1.0 + 2 * math.exp(-step / 5)) for step in range(1, 101)))
    assert settled.still_falling() is None
    assert Curves(training=tuple(falling(8))).still_falling() is None, "eight steps say nothing"


def test_jumps_are_counted_where_they_were_planted_and_clipped_gradients_after_the_warm_up() -> None:
    points = dict(falling(100, noise=0.05))
    for step in (40, 61, 90):
        points[step] *= 4
    assert Curves(training=tuple(points.items())).spikes() == (40, 61, 90)
    assert Curves(training=tuple(falling(100, noise=0.05))).spikes() == ()
    gradients = tuple((step, 5.0 if step <= 10 or step % 2 else 0.5) for step in range(1, 51))
    assert Curves(gradients=gradients).clipped(1.0, after=10) == pytest.approx(0.5)
    assert Curves().clipped(1.0, after=0) == 0.0


def test_rows_done_again_after_a_resume_count_once_and_damage_is_left_out() -> None:
    rows = [
        {"step": 1, "loss": 3.0, "grad_norm": 1.0},
        {"step": 2, "loss": 2.0},
        {"step": 2, "validation_loss": 2.5},
        {"step": 2, "loss": 1.9, "grad_norm": float("nan")},
        {"loss": 7.0},
    ]
    curves = read_curves([*map(json.dumps, rows), "{broken", "[1]", ""])
    assert curves.training == ((1, 3.0), (2, 1.9))
    assert curves.validation == ((2, 2.5),)
    assert curves.gradients == ((1, 1.0),)


@given(
    st.lists(st.floats(0, 50), max_size=60),
    st.lists(st.tuples(st.integers(1, 60), st.floats(0, 50)), max_size=8, unique_by=lambda point: point[0]),
)
def test_every_curve_has_an_answer_and_an_overfit_step_was_really_the_lowest(losses, validation) -> None:
    curves = Curves(training=tuple(enumerate(losses, start=1)), validation=tuple(sorted(validation)))
    curves.memorised(), curves.still_falling(), curves.spikes()
    overfit = curves.overfit()
    if overfit:
        assert overfit.best == min(loss for _, loss in validation) < overfit.last
        assert overfit.step < max(step for step, _ in validation)
