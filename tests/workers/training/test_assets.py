"""The checkpoint's page in Dagster."""

from pathlib import Path
from typing import Any

from ft_assets.graph.assets.checkpoints import _metadata, only_trained
from ft_assets.graph.glue import DagsterObserver
from ft_assets.workers.training.journal import Journal
from ft_assets.workers.training.telemetry.report import loss_curve, write_pictures
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.workers.training.conftest import publish

FACTS: dict[str, Any] = {
    "steps": 2,
    "train_loss": 1.25,
    "validation_loss": [[1, 2.0], [2, 1.5]],
    "tokens": 640,
    "seconds": 4.0,
    "tokens_per_s": 160.0,
    "resumed": [{"attempt": 1, "step": 1}],
}


def test_the_page_shows_the_curve_the_last_losses_and_what_was_resumed(tmp_path: Path) -> None:
    folder = tmp_path / "result"
    (folder / "report").mkdir(parents=True)
    (folder / "report" / "loss.png").write_bytes(loss_curve([{"step": 1, "loss": 2.0}], "acme.books.v1"))
    artifact = publish(open_store(str(tmp_path / "store"), create=True), folder, "checkpoint", "acme", FACTS)
    shown = {name: entry.value for name, entry in _metadata(artifact).items()}
    assert shown["loss_curve"].startswith("![training and validation loss](data:image/png;base64,iVBOR")
    assert (shown["mean_train_loss"], shown["validation_loss"], shown["steps"]) == (1.25, 1.5, 2)
    assert shown["resumed"] == "after step 1 of attempt 1"


def test_losses_over_rows_of_different_kinds_say_so_beside_the_curve(tmp_path: Path) -> None:
    validation = {"rows": 86, "kinds": {"default": 86}}
    train = {"rows": 2034, "kinds": {"default": 1614, "replay": 420}}
    report: dict[str, Any] = {"mixed": [], "splits": {"train": train, "validation": validation}}
    note = only_trained(report)
    assert "420 of 2,034 training rows are of a kind that validation does not have (replay)" in note
    mixed = {"dataset": "shared.general.v1", "rows": 200}
    alike: dict[str, Any] = {**report, "splits": {"train": {"rows": 2000, "kinds": {}}, "validation": validation}}
    assert only_trained(alike) == ""
    assert "200 of 2,000 training rows" in only_trained({**alike, "mixed": [mixed]})
    # Without validation there is nothing to compare, and a handful of rows moves no loss.
    assert only_trained({**report, "splits": {"train": train, "validation": {"rows": 0, "kinds": {}}}}) == ""
    assert only_trained({**alike, "mixed": [{**mixed, "rows": 3}]}) == ""
    folder = tmp_path / "result"
    (folder / "report").mkdir(parents=True)
    (folder / "report" / "loss.png").write_bytes(b"png")
    artifact = publish(open_store(str(tmp_path / "store"), create=True), folder, "checkpoint", "acme", FACTS)
    shown = {name: entry.value for name, entry in _metadata(artifact, note).items()}
    assert shown["losses_not_comparable"] == note
    assert str(shown["loss_curve"]).endswith(note)
    assert list(shown)[:3] == ["loss_curve", "validation_loss", "mean_train_loss"]


def test_the_page_shows_the_throughput_perplexity_utilisation_and_alerts(tmp_path: Path) -> None:
    alert = {"kind": "slow", "step": 40, "what": "9 tokens/s are under half", "remedy": "Look for other work."}
    facts = FACTS | {"validation_perplexity": [[1, 9.0], [2, 4.5]], "mfu": 0.41, "alerts": [alert]}
    journal = Journal(rows=[{"step": 1, "loss": 2.0, "tokens": 5, "tokens_per_s": 5.0}])
    folder = tmp_path / "result"
    (folder / "report").mkdir(parents=True)
    write_pictures(folder / "report", journal, "acme.books.v1")
    artifact = publish(open_store(str(tmp_path / "store"), create=True), folder, "checkpoint", "acme", facts)
    shown = {name: entry.value for name, entry in _metadata(artifact).items()}
    assert shown["throughput"].startswith("![tokens per second, and waiting for data](data:image/png;base64,iVBOR")
    assert (shown["validation_perplexity"], shown["mfu"]) == (4.5, 0.41)
    assert shown["alerts"] == "- 9 tokens/s are under half, up to step 40. Look for other work."


def test_alerts_are_warned_and_told_of_once_beside_the_progress_line(tmp_path: Path) -> None:
    class Log:
        def __init__(self) -> None:
            self.warnings: list[str] = []
            self.lines: list[str] = []
            self.warning, self.info = self.warnings.append, self.lines.append

    log, alerted = Log(), list[tuple[int, str]]()
    observer = DagsterObserver(log, lambda attempt, alert: alerted.append((attempt.number, alert)))
    address = Address(tenant="acme", asset="checkpoint", fingerprint="ab")
    observer.attempt(Attempt(Store(str(tmp_path)), address, 2), attached=True)
    for done, alerts in enumerate([[], ["too slow"], ["too slow"], ["too slow", "starved"]]):
        observer.progress({"phase": "training", "done": done, "total": 9, "eta_s": 30.0, "alerts": alerts})
    assert log.warnings == ["too slow", "starved"]
    assert alerted == [(2, "too slow"), (2, "starved")]
    assert log.lines[1:] == ["training 0/9, 30 s left"]
