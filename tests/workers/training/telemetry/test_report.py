"""A training's figures while it runs and afterwards, none of which changes the result."""

import math
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ft_assets.settings.gpus import CATALOGUE, Hardware
from ft_assets.workers.training.journal import Journal
from ft_assets.workers.training.telemetry import live
from ft_assets.workers.training.telemetry.gpu import Cpu
from ft_assets.workers.training.telemetry.report import telemetry_facts, validation_figures
from ft_assets.workers.training.train import train
from ft_assets.workers.training.training_loop import TrainingLoop
from ft_resources.worker_context import Preempted, WorkContext
from tests.workers.training.conftest import content, make_bench, step_rows

pytestmark = pytest.mark.training


class AsIfOnGpu(Cpu):
    """A CPU that poses as an H200, so that there is an expected speed, which is far higher."""

    @property
    def hardware(self) -> Hardware | None:
        return CATALOGUE["H200"]


def test_perplexity_belongs_to_losses_that_are_means_over_tokens() -> None:
    assert validation_figures("sft", 2.0) == {"validation_loss": 2.0, "validation_perplexity": round(math.exp(2.0), 6)}
    assert validation_figures("cpt", 2.0).keys() == {"validation_loss", "validation_perplexity"}
    for method in ("dpo", "orpo"):
        assert validation_figures(method, 0.69) == {"validation_loss": 0.69}
    assert validation_figures("sft", 1e6) == {"validation_loss": 1e6}


def test_facts_are_there_without_gpu_validation_and_alerts() -> None:
    row = {"step": 1, "loss": 1.0, "data_wait_s": 0.25, "mfu": None}
    journal = Journal(rows=[row, row])
    assert telemetry_facts(journal) == {"validation_perplexity": [], "mfu": None, "data_wait_s": 0.5, "alerts": []}


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
