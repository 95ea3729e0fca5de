"""A line's log in MLflow's registry: aliases and tags follow it, whoever tells last."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control.lines.lines import append, read_line
from ft_assets.control.lines.mlflow_registry import note_line, standing_of
from ft_assets.control.lines.promotion import promote, rollback
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.tracking import Mirror
from tests.control.lines.promotable import LINE, Promotable, decided, made_record
from tests.mlflow_tables import new_mlflow as new_mlflow
from tests.workers.evals.world import World


@pytest.fixture(scope="module")
def uri(new_mlflow: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    return new_mlflow(tmp_path_factory.mktemp("mlflow"))


def test_aliases_and_tags_follow_the_log_and_come_back_from_it(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mlflow.tracking import MlflowClient

    monkeypatch.setattr("ft_assets.control.lines.eligibility.rejection_reason", lambda *_: "")
    line = Promotable.make(World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path))
    artifacts = line.world.artifacts
    first, second = line.adapter(1), line.adapter(2)
    promote(artifacts, str(first.address), "staging", decided())
    promote(artifacts, str(first.address), "production", decided())
    promote(artifacts, str(second.address), "production", decided(actor="bob", reason="better"))
    mirror = Mirror(uri)
    note_line(mirror, artifacts, LINE)
    assert mirror.flush(600) == ""
    client: Any = MlflowClient(uri, uri)

    def alias(name: str) -> str:
        return str(client.get_model_version_by_alias(LINE, name).tags["ft.fingerprint"])

    assert alias("staging") == first.address.fingerprint
    assert alias("production") == second.address.fingerprint
    tags = client.get_model_version_by_alias(LINE, "production").tags
    assert (tags["ft.stage"], tags["ft.actor"], tags["ft.reason"]) == ("production", "bob", "better")
    assert (tags["ft.tenant"], tags["ft.dataset"]) == ("acme", "acme.things.v1")
    assert tags["ft.lineage.base_model.digest"] == line.base.digest
    assert len(tags["ft.recipe_hash"]) == 64
    rollback(artifacts, LINE, decided())
    promote(artifacts, str(first.address), "archived", decided())
    # Somebody moved an alias by hand: the log is the truth.
    client.set_registered_model_alias(LINE, "production", client.get_model_version_by_alias(LINE, "production").version)
    note_line(mirror, artifacts, LINE)
    assert mirror.flush(600) == ""
    assert client.get_registered_model(LINE).aliases == {}


def test_what_is_told_is_read_when_it_is_told(tmp_path: Path) -> None:
    """Of two processes that tell of two promotions, the later one may be told first."""
    store = Store(str(tmp_path))
    append(store, made_record(stage="dev"))
    told: list[int] = []

    class Server:
        def stand(self, line: str, standing: Any) -> None:
            told.append(standing.seq)
            if len(told) == 1:
                append(store, made_record(seq=2, stage="dev", adapter="b", previous=read_line(store, LINE).head))

    mirror = Mirror("sqlite:///nowhere")
    mirror._server = Server()  # type: ignore[assignment]
    mirror.line_stands(LINE, lambda: standing_of(read_line(store, LINE)))
    assert mirror.flush(600) == ""
    assert told == [1, 2]
