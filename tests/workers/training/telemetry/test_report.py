"""Figures of a training while it runs and afterwards, which change nothing of the result; its alerts, raised once."""

import math
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.gpus import CATALOGUE, Hardware
from ft_assets.workers.training.journal import NOT_FINITE, Journal
from ft_assets.workers.training.telemetry import live
from ft_assets.workers.training.telemetry.alerts import STREAK, STREAK_S, Alarms, Alert, Leaving, waiting_share
from ft_assets.workers.training.telemetry.gpu import Cpu
from ft_assets.workers.training.telemetry.report import telemetry_facts, validation_figures
from ft_assets.workers.training.train import train
from ft_assets.workers.training.training_loop import TrainingLoop
from ft_resources.worker_context import Preempted, WorkContext
from tests.workers.training.conftest import content, make_bench, step_rows


class AsIfOnGpu(Cpu):
    """A CPU that poses as an H200, so that there is an expected speed, which is far higher."""

    @property
    def hardware(self) -> Hardware | None:
        return CATALOGUE["H200"]


@pytest.mark.training
def test_perplexity_belongs_to_losses_that_are_means_over_tokens() -> None:
    assert validation_figures("sft", 2.0) == {"validation_loss": 2.0, "validation_perplexity": round(math.exp(2.0), 6)}
    assert validation_figures("cpt", 2.0).keys() == {"validation_loss", "validation_perplexity"}
    for method in ("dpo", "orpo"):
        assert validation_figures(method, 0.69) == {"validation_loss": 0.69}
    assert validation_figures("sft", 1e6) == {"validation_loss": 1e6}


@pytest.mark.training
def test_facts_are_there_without_gpu_validation_and_alerts() -> None:
    row = {"step": 1, "loss": 1.0, "data_wait_s": 0.25, "mfu": None}
    journal = Journal(rows=[row, row])
    assert telemetry_facts(journal) == {"validation_perplexity": [], "mfu": None, "data_wait_s": 0.5, "alerts": []}


@pytest.mark.training
@pytest.mark.usefixtures("pictures")
def test_a_watched_training_alerts_and_has_the_bytes_of_one_that_nobody_watches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    settings: dict[str, Any] = {"max_steps": 4, "validate_every_steps": 2}
    quiet = train(make_bench(tmp_path / "quiet", **settings).context())
    assert "metrics are served" not in capsys.readouterr().out

    monkeypatch.setenv("FT_METRICS_PORT", "0")
    monkeypatch.setattr(live, "Cpu", AsIfOnGpu)
    monkeypatch.setattr("ft_assets.workers.training.telemetry.alerts.STREAK", 2)
    monkeypatch.setattr("ft_assets.workers.training.telemetry.alerts.STREAK_S", 0.0)
    # However long a busy machine takes to read.
    monkeypatch.setattr("ft_assets.workers.training.telemetry.alerts._WAITING", 2.0)
    context = make_bench(tmp_path / "watched", **settings).context()
    pages, lines = _watched(context, monkeypatch)
    watched = train(context)

    assert content(watched) == content(quiet)
    assert 'ft_training_step{attempt="1",dataset="acme.counting.v1",recipe="tiny.v1",tenant="acme"} 3.0' in pages[3]
    assert "ft_training_loss{" in pages[3]
    (alert,) = watched.facts["alerts"]
    assert (alert["kind"], alert["step"]) == ("slow", 2)
    assert alert["what"] in lines[-1]["alerts"][0]
    assert capsys.readouterr().out.count("alert: ") == 1
    rows = step_rows(watched)
    assert all(0 <= row["mfu"] < 0.01 for row in rows if "loss" in row)
    losses, perplexities = watched.facts["validation_loss"], watched.facts["validation_perplexity"]
    assert [step for step, _ in perplexities] == [step for step, _ in losses] == [2, 4]
    assert [value for _, value in perplexities] == pytest.approx([math.exp(loss) for _, loss in losses])
    assert (watched.folder / "report" / "throughput.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.training
def test_a_resumed_run_keeps_the_rows_of_its_first_attempt_and_tells_only_its_own_steps(tmp_path: Path) -> None:
    bench = make_bench(tmp_path, max_steps=6, validate_every_steps=2)
    first, second = bench.context(1), bench.context(2)
    told: dict[int, list[dict[str, Any]]] = {1: [], 2: []}
    for attempt, context in ((1, first), (2, second)):
        _record(context, told[attempt], last=5 if attempt == 1 else None)
    with pytest.raises(Preempted):
        train(first)
    resumed = train(second)
    rows = step_rows(resumed)
    # A step's row comes first and may be followed by that of a validation.
    at = resumed.facts["resumed"][0]["step"]
    assert [row for row in rows if row["step"] <= at] == [row for row in told[1] if row["step"] <= at]
    assert [row for row in rows if row["step"] > at] == told[2]
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 3, 4, 5, 6]
    assert [row["step"] for row in rows if "validation_perplexity" in row] == [2, 4, 6]


def _record(context: WorkContext, rows: list[dict[str, Any]], last: int | None) -> None:
    """Keep what ``context`` tells of its steps, and ask it to stop after step ``last``."""
    report = context.step

    def step(**metrics: Any) -> None:
        report(**metrics)
        rows.append(metrics)
        if metrics["step"] == last:
            context._stopping.set()

    context.step = step  # type: ignore[method-assign]


def _watched(context: WorkContext, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[int, str], list[dict[str, Any]]]:
    """The page as it is when each step has ended, and the progress of each step, of the training in ``context``."""
    pages: dict[int, str] = {}
    lines: list[dict[str, Any]] = []
    after, report = TrainingLoop._after_step, context.progress

    def scrape(self: TrainingLoop, step: int) -> None:
        page = self.telemetry._page
        assert page is not None
        with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/metrics") as answer:
            pages[step] = answer.read().decode()
        after(self, step)

    def progress(phase: str, *args: Any, **extra: Any) -> None:
        report(phase, *args, **extra)
        if "alerts" in extra:
            lines.append({"phase": phase, **extra})

    monkeypatch.setattr(TrainingLoop, "_after_step", scrape)
    context.progress = progress  # type: ignore[method-assign]
    return pages, lines


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
