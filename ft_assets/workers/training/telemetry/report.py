"""A run's telemetry in its artifact: pictures below ``report/``, and facts. No torch here."""

import io
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.workers.training.journal import Journal
from ft_assets.workers.training.telemetry.alerts import waiting_share

LOSS, THROUGHPUT = "loss.png", "throughput.png"
_MOST = 700.0
"""exp() of a larger loss overflows."""
_TREND_WEIGHT = 0.9


def write_pictures(report: Path, journal: Journal, title: str) -> None:
    """The loss curve and the throughput into the folder ``report``."""
    (report / LOSS).write_bytes(loss_curve(journal.rows, title))
    (report / THROUGHPUT).write_bytes(throughput_curve(journal.rows, title))


def telemetry_facts(journal: Journal) -> dict[str, Any]:
    """``mfu`` is the median of the steps', null on a CPU; ``data_wait_s`` the sum of theirs."""
    rows = journal.rows
    utilisation = [row["mfu"] for row in rows if row.get("mfu") is not None]
    return {
        "validation_perplexity": [
            [row["step"], row["validation_perplexity"]] for row in rows if "validation_perplexity" in row
        ],
        "mfu": statistics.median(utilisation) if utilisation else None,
        "data_wait_s": round(math.fsum(row.get("data_wait_s", 0.0) for row in rows), 3),
        "alerts": journal.alerts,
    }


def validation_figures(method: str, loss: float) -> dict[str, float]:
    """Columns of a validation; with its perplexity where the method's loss is the mean over tokens."""
    figures = {"validation_loss": loss}
    if METHODS[method].token_mean and loss < _MOST:
        figures["validation_perplexity"] = round(math.exp(loss), 6)
    return figures


def loss_curve(rows: Sequence[dict[str, Any]], title: str) -> bytes:
    """A PNG of training loss (points and trend) and validation loss over optimizer steps, from rows of step metrics."""
    return _png(loss_figure(rows, title))


def loss_figure(rows: Sequence[dict[str, Any]], title: str) -> Any:
    """The same as a matplotlib figure with one panel."""
    from matplotlib.figure import Figure

    train = [(row["step"], row["loss"]) for row in rows if "loss" in row]
    validation = [(row["step"], row["validation_loss"]) for row in rows if "validation_loss" in row]
    figure = Figure(figsize=(7.2, 4.0), dpi=110, layout="constrained")
    axes = figure.add_subplot()
    if train:
        steps, losses = zip(*train, strict=True)
        axes.plot(steps, losses, ".", color="#9bb7d4", markersize=4, label="training rows, each step")
        axes.plot(steps, _trend(losses), "-", color="#1f5a99", linewidth=1.8, label="training rows, trend")
    if validation:
        steps, losses = zip(*validation, strict=True)
        axes.plot(steps, losses, "o-", color="#c8501e", markersize=6, label="validation rows")
        axes.annotate(
            f"{losses[-1]:.3f}", (steps[-1], losses[-1]), xytext=(-6, 8), textcoords="offset points", ha="right"
        )
    axes.set_xlabel("optimizer step")
    axes.set_ylabel("loss (nats)")
    figure.suptitle(title, fontsize=10)
    axes.grid(alpha=0.25)
    if train or validation:
        _legend_above(axes, ncols=3)
    return figure


def throughput_curve(rows: Sequence[dict[str, Any]], title: str) -> bytes:
    """A PNG of tokens/s over optimizer steps, and below what share of each step went into waiting for data."""
    from matplotlib.figure import Figure

    timed = [row for row in rows if row.get("tokens_per_s")]
    steps = [row["step"] for row in timed]
    rates = [row["tokens_per_s"] for row in timed]
    figure = Figure(figsize=(7.2, 4.0), dpi=110, layout="constrained")
    speed, shares = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    if timed:
        speed.plot(steps, rates, ".", color="#9bb7d4", markersize=4, label="each step")
        speed.plot(steps, _trend(rates), "-", color="#1f5a99", linewidth=1.8, label="trend")
        waiting = [100 * waiting_share(row) for row in timed]
        shares.fill_between(steps, waiting, step="mid", color="#e3a07f", label="waiting for data")
    busy = [(row["step"], 100 * row["gpu_utilisation"]) for row in timed if "gpu_utilisation" in row]
    if busy:
        shares.plot(*zip(*busy, strict=True), "-", color="#3d8b57", linewidth=1.4, label="GPU at work")
    speed.set_ylim(bottom=0)
    speed.set_ylabel("tokens/s")
    figure.suptitle(title, fontsize=10)
    shares.set_ylim(0, 100)
    shares.set_ylabel("% of the time")
    shares.set_xlabel("optimizer step")
    speed.yaxis.set_major_formatter("{x:,.0f}")
    for axes in (speed, shares):
        axes.grid(alpha=0.25)
    if timed:
        _legend_above(speed, ncols=2)
        shares.legend(frameon=False, ncols=2, loc="lower right", bbox_to_anchor=(1.0, 0.95))
    return _png(figure)


def _legend_above(axes: Any, *, ncols: int) -> None:
    """Above the axes, as the curves may be anywhere in them."""
    place = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "borderpad": 0.2, "borderaxespad": 0.2}
    axes.legend(frameon=False, ncols=ncols, fontsize=9, **place)


def _png(figure: Any) -> bytes:
    for axes in figure.axes:
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    return buffer.getvalue()


def _trend(values: Sequence[float]) -> list[float]:
    """Exponential moving average, corrected for its start (https://arxiv.org/abs/1412.6980, section 3)."""
    trend, weighted = [], 0.0
    for count, value in enumerate(values, start=1):
        weighted = _TREND_WEIGHT * weighted + (1 - _TREND_WEIGHT) * value
        trend.append(weighted / (1 - _TREND_WEIGHT**count))
    return trend
