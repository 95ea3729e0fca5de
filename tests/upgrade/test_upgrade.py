"""The drill of an upgrade: what the previous release left in the middle of its work goes on under this one.

``tests/fixtures/store_in_flight.tar.gz`` was left by 374a551a; ``previous.py`` says how. What it
left is of the versions that the code of assets had then: work under a version that was raised since is begun anew.
"""

import tarfile
from pathlib import Path

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.submissions.status import State
from ft_assets.graph.orchestrator import Dagster
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.store_layout import Layout
from ft_resources.store_marker import open_store
from tests.e2e.project import Project
from tests.warm_workers.fixture import warm as warm

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("warm")]
FIXTURE = Path(__file__).parents[1] / "fixtures" / "store_in_flight.tar.gz"
DATASET = "acme.colours.v1"
VERSIONS = {"dataset": "13", "baseline_report": "3", "token_pack": "5", "eval_report": "5", "adapter": "4"}


@pytest.fixture
def left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    """The store, and nothing else of where it was made."""
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path, filter="data")
    for asset, version in VERSIONS.items():
        monkeypatch.setitem(CODE_VERSIONS, asset, version)
    monkeypatch.setenv("FT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("FT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("FT_TRACKING", "off")
    (tmp_path / "tenants.yaml").write_text("{}")
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    return Project(folder=tmp_path, store_url=f"file://{tmp_path}/store")


def test_runs_in_flight_go_on_from_their_saves_and_what_waited_is_done(left: Project) -> None:
    store = left.store
    assert open_store(left.store_url).layout is Layout.BESIDE
    before = {each.recipe: each for each in api.list_submissions(tenant="acme", store=store)}
    assert before["waits.v1"].state is State.QUEUED
    assert not api.verify(everything=True, store=store).findings
    artifacts = Artifacts(store)
    request = identity.checkpoint_request(artifacts, DATASET, "half.v1")
    (killed,) = attempts_at(store, request.address)
    reached = int(killed.progress()["done"])

    with dg.DagsterInstance.ephemeral() as instance:
        orchestrator = Dagster(instance)
        assert api.rebuild(store=store, orchestrator=orchestrator).problems == []
        made = {
            recipe: api.fine_tune(DATASET, recipe, store=store, orchestrator=orchestrator, actor="ann")
            for recipe in ("half.v1", "waits.v1")
        }
    for recipe, each in made.items():
        assert each.submission.id == before[recipe].submission
        assert each.outcome.adapter
    (resumed,) = artifacts.get(request.address).facts["resumed"]
    assert 0 < resumed["step"] <= reached < 400
    assert reached - resumed["step"] < 10
