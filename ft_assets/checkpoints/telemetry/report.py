"""What a run leaves of its telemetry in the artifact: pictures below ``report/``, and facts. No torch here."""

import math
import statistics
from pathlib import Path
from typing import Any

from ft_assets.checkpoints.journal import Journal
from ft_assets.checkpoints.methods import METHODS
from ft_assets.checkpoints.plots import loss_curve, throughput_curve

LOSS, THROUGHPUT = "loss.png", "throughput.png"
_MOST = 700.0
"""Beyond, e to the power of a loss is no float."""


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
    """Columns of a validation; with its perplexity where the method's loss is the mean over tokens that it is of."""
    figures = {"validation_loss": loss}
    if METHODS[method].form != "preference" and loss < _MOST:
        figures["validation_perplexity"] = round(math.exp(loss), 6)
    return figures
