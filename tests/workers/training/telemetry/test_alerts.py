"""Alerts are raised once, and only if a person has something to do."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.workers.training.journal import NOT_FINITE
from ft_assets.workers.training.telemetry.alerts import STREAK, STREAK_S, Alarms, Alert, Leaving, waiting_share


def alerts_of(rows: list[dict[str, Any]], expected: float | None = None) -> list[Alert]:
    """All alerts of a run with these rows."""
    alarms = Alarms(expected)
    for row in rows:
        alarms.look(row)
    return alarms.alerts


def rows(*runs: tuple[int, float], seconds: float = 2.0, waiting: float = 0.0) -> list[dict[str, Any]]:
    """Steps at these rates (number of steps, tokens/s), one after the other; every step takes ``seconds``."""
    rates = [rate for count, rate in runs for _ in range(count)]
    return [
        {
            "step": step,
            "loss": 1.0,
            "tokens": round(rate * seconds),
            "tokens_per_s": rate,
            "data_wait_s": waiting * seconds,
        }
        for step, rate in enumerate(rates, start=1)
    ]


def test_a_run_that_falls_to_under_half_of_its_first_steps_says_so_once_and_at_once() -> None:
    (alert,) = alerts_of(rows((40, 1000.0), (60, 499.0)))
    assert (alert.kind, alert.step) == ("slow", 40 + STREAK)
    assert "499 tokens/s are under half of the 1,000 that its first steps made" in str(alert)
    assert alerts_of(rows((40, 1000.0), (60, 501.0))) == []


def waited_for(rank: int, own_s: float, others_s: float, count: int = 20) -> list[dict[str, Any]]:
    """Steps of 2 s, with the time that ``rank`` works by itself, and the median of the others."""
    times = {"slowest_rank": rank, "slowest_rank_s": own_s, "other_ranks_s": others_s}
    return [{**row, **times} for row in rows((count, 1000.0))]


def stragglers(told: list[dict[str, Any]]) -> list[Alert]:
    alarms = Alarms()
    alarms.nodes = ("gpu-1", "gpu-2")
    return [alert for row in told for alert in alarms.look(row)]


def test_a_rank_that_all_others_wait_for_is_told_with_its_node_and_how_much_slower_it_is() -> None:
    (alert,) = stragglers(waited_for(1, 1.5, 0.9))
    assert (alert.kind, alert.step) == ("straggler", STREAK)
    assert alert.what == (
        "all ranks wait for rank 1 on node gpu-2: of each step of 2 s it works 1.5 s by itself, the others 0.9 s"
    )


def test_what_costs_a_step_little_or_is_hardly_slower_makes_no_straggler() -> None:
    assert stragglers(waited_for(1, 0.15, 0.01)) == []
    assert stragglers(waited_for(1, 1.5, 1.25)) == []


def test_ranks_that_take_turns_at_being_slowest_are_no_stragglers() -> None:
    turns = [waited_for(turn % 2, 1.5, 0.9, count=STREAK - 1) for turn in range(4)]
    assert stragglers([row for turn in turns for row in turn]) == []


def test_rows_of_earlier_attempts_blame_no_machine_of_this_one() -> None:
    assert alerts_of(waited_for(1, 1.5, 0.9)) == []


def test_the_first_step_which_warms_up_says_nothing_of_what_is_usual() -> None:
    assert alerts_of(rows((1, 100_000.0), (60, 1000.0))) == []


def test_a_run_that_never_reaches_half_of_the_estimate_says_so_from_its_first_steps() -> None:
    (alert,) = alerts_of(rows((30, 400.0)), expected=1000.0)
    assert (alert.kind, alert.step) == ("slow", STREAK)
    assert "the estimate expects" in alert.what
    assert alerts_of(rows((30, 600.0)), expected=1000.0) == []


@given(st.lists(st.tuples(st.integers(1, STREAK - 1), st.integers(3, 20)), max_size=10))
def test_hiccups_that_end_in_time_are_none_of_anybodys_business(hiccups: list[tuple[int, int]]) -> None:
    runs = [(20, 1000.0), *(run for short, calm in hiccups for run in ((short, 100.0), (calm, 1000.0)))]
    assert alerts_of(rows(*runs)) == []


def test_steps_of_milliseconds_have_to_be_slow_for_longer() -> None:
    short = rows((20, 1000.0), (200, 100.0), seconds=0.05)
    assert alerts_of(short) == []
    (alert,) = alerts_of(rows((20, 1000.0), (400, 100.0), seconds=0.05))
    assert abs((alert.step - 20) * 0.05 - STREAK_S) < 0.1


def test_steps_that_wait_for_data_say_what_to_do_about_it() -> None:
    (alert,) = alerts_of(rows((30, 1000.0), waiting=0.4))
    assert (alert.kind, alert.step) == ("starved", STREAK)
    assert "40% of a step goes into waiting for data" in str(alert)
    assert "FT_SCRATCH" in alert.remedy
    assert alerts_of(rows((30, 1000.0), waiting=0.15)) == []


@given(st.lists(st.sampled_from([100.0, 450.0, 1000.0]), max_size=80), st.integers(0, 80))
def test_a_run_that_goes_on_behind_its_rows_tells_what_one_that_ran_through_does(rates: list[float], cut: int) -> None:
    whole = rows(*((1, rate) for rate in rates), waiting=0.3)
    resumed = Alarms()
    before = [alert for row in whole[:cut] for alert in resumed.look(row)]
    after = [alert for row in whole[cut:] for alert in resumed.look(row)]
    assert before + after == resumed.alerts == alerts_of(whole)


def test_rows_of_validations_and_of_older_saves_break_nothing() -> None:
    old = {"step": 1, "loss": 2.0, "tokens": 10, "tokens_per_s": 5.0}
    assert alerts_of([old, {"step": 1, "validation_loss": 2.0}] * 30) == []
    assert waiting_share(old) == 0


def test_a_validation_loss_that_is_not_finite_is_an_alert_at_once_and_once_in_a_run() -> None:
    (alert,) = alerts_of([*rows((3, 1000.0)), {"step": 3, NOT_FINITE: 1}, {"step": 6, NOT_FINITE: 1}])
    assert (alert.kind, alert.step) == ("validation", 3)
    assert str(alert).startswith("the validation loss is not a finite number, after step 3. No gate passes")


def compared(margins: list[float], beta: float = 0.1) -> list[Alert]:
    alarms = Alarms(leaving=Leaving(last=len(margins), beta=beta))
    told = [
        {"step": step, "tokens": 10, "learning_rate": 5e-6 / step, "rewards/margins": margin}
        for step, margin in enumerate(margins, start=1)
    ]
    return [alert for row in told for alert in alarms.look(row)]


def test_a_model_that_stays_beside_its_reference_is_told_at_its_last_step_with_steps_and_rate() -> None:
    (alert,) = compared([0.001] * 12)
    assert (alert.kind, alert.step) == ("unmoved", 12)
    assert "differ by 0.01 nats at a learning rate of at most 5e-06, after step 12." in str(alert)
    assert "a smaller training.global_batch_size" in str(alert)


@pytest.mark.parametrize(("margin", "beta"), [(0.05, 0.1), (-0.05, 0.1), (0.005, 0.01)])
def test_a_model_that_left_its_reference_in_either_direction_is_not_told(margin: float, beta: float) -> None:
    assert compared([0.0] * 10 + [margin] * 10, beta) == []


def test_pairs_without_a_reference_are_not_compared_with_one() -> None:
    assert alerts_of([{"step": 1, "tokens": 10, "learning_rate": 1e-5, "rewards/margins": 0.0}]) == []
