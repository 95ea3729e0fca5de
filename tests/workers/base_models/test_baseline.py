import json
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from ft_assets.records.uploads import publish_upload, upload_address
from ft_assets.workers.evals.baseline import score_baseline
from ft_resources.artifacts import Artifacts, FileEntry, InputRef, content_digest
from ft_resources.canonical import sha256_file
from ft_resources.store import Store
from ft_resources.worker_context import WorkContext


def publish(store: Store, asset: str, folder: Path) -> InputRef:
    files = {path.name: path for path in folder.iterdir()}
    digest = content_digest({n: FileEntry(size=p.stat().st_size, sha256=sha256_file(p)) for n, p in files.items()})
    address = upload_address("shared", asset, digest)
    return publish_upload(Artifacts(store), address, files, digest, actor="test").ref


def test_every_suite_is_scored_once_and_each_item_is_kept(
    base: Path, store: Store, tmp_path: Path, work_context: Callable[..., WorkContext], monkeypatch: pytest.MonkeyPatch
) -> None:
    import ft_assets.workers.evals.baseline as baseline
    import ft_assets.workers.evals.runner as runner

    asked = {}

    def score_loaded(folder, suites, *, seed, limit, progress, chat, saves):
        asked.update(seed=seed, limit=limit, config=(folder / "config.json").exists())
        assert (suites["tiny.v1"] / "task.yaml").read_text() == "task: tiny"
        progress("scoring", 1, 2)
        return {"tiny.v1": runner.SuiteScore(metric="acc", value=0.5, n=2, correct=(1.0, 0.0), item_ids=("0", "1"))}

    monkeypatch.setattr(baseline, "load_model", lambda folder, engine: folder)
    monkeypatch.setattr(runner, "score_loaded", score_loaded)
    suite = tmp_path / "suite"
    suite.mkdir()
    (suite / "task.yaml").write_text("task: tiny")
    context = work_context(
        "baseline_report",
        {"settings": {"seed": 3, "limit": 2, "chat_template": None}},
        {"base": publish(store, "base_upload", base), "suite:tiny.v1": publish(store, "suite", suite)},
    )
    result = score_baseline(context)
    assert asked == {"seed": 3, "limit": 2, "config": True}
    scores = {"tiny.v1": {"metric": "acc", "value": 0.5, "n": 2}}
    assert result.facts["scores"] == scores
    assert json.loads((result.folder / "report.json").read_text())["scores"] == scores
    table = pq.read_table(result.folder / "samples" / "tiny.v1.parquet").to_pylist()
    assert table == [{"item_id": "0", "score": 1.0}, {"item_id": "1", "score": 0.0}]
