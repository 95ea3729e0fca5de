"""Parity records: numbered by adapter and settings, sealed, and the last one counts."""

import json
from pathlib import Path

import pytest

from ft_assets.control.erasure.collect import RECORDS
from ft_assets.control.parity.records import list_parity, record_parity
from ft_assets.workers.serving.parity.report import ParityReport
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_resources.artifacts import Artifact
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store
from tests.workers.evals.world import World

FLOAT32, HALF = (ServerSettings(engine="embedded", dtype=dtype) for dtype in ("float32", "bfloat16"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Store(str(tmp_path / "store")), tmp_path)


@pytest.fixture
def adapter(world: World) -> Artifact:
    base = world.publish("base_model", {"config.json": b"{}"}, tenant="shared")
    facts = {"line": "acme.things.tiny"}
    return world.publish("adapter", {"adapter_config.json": b"{}"}, inputs={"base": base}, facts=facts)


def report(outcome: str, settings: ServerSettings = FLOAT32) -> ParityReport:
    reasons = () if outcome == "proved" else ("it differs",)
    return ParityReport(
        settings=settings, outcome=outcome, reasons=reasons, evaluated_in="float32", precision="float32"
    )


def record(world: World, adapter: Artifact, *reports: ParityReport) -> None:
    for each in reports:
        record_parity(world.store, adapter, each, server="one", actor="ann")


def test_the_last_check_counts_for_each_settings(world: World, adapter: Artifact) -> None:
    assert list_parity(world.store, adapter) == []
    record(world, adapter, report("failed"), report("proved"), report("not proved", HALF))
    found = {each.report.settings.dtype: each for each in list_parity(world.store, adapter)}
    assert found.keys() == {"float32", "bfloat16"}
    last = found["float32"]
    assert last.report.proved
    assert (last.seq, last.line, last.adapter, last.server) == (2, "acme.things.tiny", adapter.ref, "one")
    assert not found["bfloat16"].report.proved


def test_a_record_that_was_altered_is_told_of(world: World, adapter: Artifact) -> None:
    record(world, adapter, report("failed"))
    path = list_parity(world.store, adapter)[0].path
    file = Path(world.store.local_path(path))
    told = json.loads(file.read_bytes())
    told["report"]["outcome"] = "proved"
    file.chmod(0o644)
    file.write_bytes(canonical_json(told))
    with pytest.raises(CorruptArtifact, match="altered"):
        list_parity(world.store, adapter)


def test_records_are_no_artifacts_to_who_cleans_up(world: World, adapter: Artifact) -> None:
    record(world, adapter, report("proved"))
    assert "parity" in world.store.folders("acme")
    assert "parity" in RECORDS
