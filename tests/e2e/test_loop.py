"""The whole loop, unattended: two lines on one base, a real daemon that is killed once, and a Hub over HTTP.

New datasets are trained, gated and promoted; the base moves, so that one old adapter is carried and the other trained
again; the base is released, and a line goes to production and back.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ft_assets.control import identity
from ft_assets.control.base_bumps.bump import find_bump
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import Decision, promote
from ft_assets.control.lines.releases import find_release
from ft_assets.control.lines.verify import verify_line
from ft_assets.records.submissions import SubmissionStatus, all_submissions
from ft_assets.settings.tags import SUBMISSION
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.adapters.lineage import lineage, verify_lineage
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import UserError
from ft_resources.store import Store
from tests.e2e.dagster_server import LONG_S, dagster_server, wait_for
from tests.e2e.loop_world import act, asked, ended, hub_with_recipe, set_up, standing, upload
from tests.e2e.project import Project, make_project
from tests.fake_hub import FakeHub
from tests.safe_base import move_capitals

# The same way with a daemon's sensors and fake workers: sensors/test_base_bumps.py; a daemon that is killed: chaos/; a
# real webserver and daemon over real workers: test_server.py.
pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.timeout(3600)]

LINE, OTHER = "acme.things.tiny", "acme.boxes.tiny"
LOOKS = ("base_revision", "base_bump")
THINGS, BOXES = "acme.things.v1", "acme.boxes.v1"
ACCEPTED, REJECTED = SubmissionStatus.ACCEPTED, SubmissionStatus.REJECTED


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = make_project(tmp_path / "project")
    set_up(project, monkeypatch, "things", "boxes")
    monkeypatch.setenv("FT_SENSOR_SECONDS", "2")
    return project


@pytest.fixture
def hub(project: Project, safe_base: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with hub_with_recipe(project, safe_base, monkeypatch) as hub:
        yield hub


def trained_once(store: Store) -> None:
    """Whatever was made by a worker was made in one attempt."""
    tenants = {tenant: store.folders(tenant) for tenant in ("acme", "shared")}
    attempts = {
        f"{tenant}/{asset}/{fingerprint}": len(attempts_at(store, Address.parse(f"{tenant}/{asset}/{fingerprint}")))
        for tenant, assets in tenants.items()
        for asset in assets
        if asset in ("dataset", "base_model", "baseline_report", "token_pack", "checkpoint", "eval_report", "adapter")
        for fingerprint in store.folders(f"{tenant}/{asset}")
    }
    assert {address: count for address, count in attempts.items() if count > 1} == {}
    assert Counter(address.split("/")[1] for address, count in attempts.items() if count)["checkpoint"] == 3


def is_carried(artifacts: Artifacts, address: str) -> None:
    """The adapter has the weights of the one on the base before, without a training, and says so."""
    trained = identity.checkpoint(artifacts, THINGS, "tiny.v1")
    carried = identity.checkpoint(artifacts, THINGS, "tiny.v2")
    assert carried.read("final/adapter_model.safetensors") == trained.read("final/adapter_model.safetensors")
    assert carried.manifest.inputs["carried_from"] == trained.ref
    assert attempts_at(artifacts.store, carried.address) == []
    adapter = artifacts.get(Address.parse(address))
    assert f"Carried from `{trained.address}`" in adapter.read("README.md").decode()
    assert json.loads(adapter.read("lineage.json"))["carried_from"] == str(trained.address)
    base = identity.base_model(artifacts, "tiny.v2")
    assert json.loads(adapter.read("adapter_config.json"))["revision"] == base.facts["revision"]
    nodes = {node.address for _, _, node in lineage(artifacts, adapter.address).walk()}
    assert {str(trained.address), str(base.address)} <= nodes
    assert verify_lineage(artifacts, adapter.address) == []


def test_upload_train_promote_bump_carry_retrain_release_rollback(
    project: Project, hub: FakeHub, safe_base: Path
) -> None:
    store, artifacts = project.store, Artifacts(project.store)
    upload(project, "things", 160)
    upload(project, "boxes", 160, capitals=True)
    with dagster_server(project, looks=LOOKS) as server:
        # Both lines are subscribed, so their first versions are trained, and staged by the recipe's margin.
        outcomes = {}
        for pair, line in ((f"{THINGS}|tiny.v1", LINE), (f"{BOXES}|tiny.v1", OTHER)):
            outcomes[line] = ended(store, pair)
            assert outcomes[line].status is ACCEPTED, outcomes[line].reason
            staged = read_line(store, line).at("staging")
            assert staged is not None
            assert (staged.adapter.address, staged.actor) == (outcomes[line].adapter, "auto")
            assert standing(store, line, "production") == ""
        act(server, store, "promote", LINE, target=LINE, stage="production")
        assert standing(store, LINE, "production") == outcomes[LINE].adapter

        # The base moves: what stands in a stage is carried to the successor, whose base is held.
        hub.commit("org/tiny", move_capitals(safe_base, project.folder / "moved"))
        carried = ended(store, f"{THINGS}|tiny.v2", "carry")
        assert carried.status is ACCEPTED, carried.reason
        assert standing(store, LINE, "staging") == carried.adapter
        bump = find_bump(store, "tiny.v2")
        assert bump is not None
        assert {each.dataset for each in bump.dependents} == {THINGS, BOXES}
        failed = ended(store, f"{BOXES}|tiny.v2", "carry")
        assert failed.status is REJECTED
        assert "task_gain: fail" in failed.reason
        retrained = f"{BOXES}|tiny.v2"
        wait_for(lambda: asked(store, retrained, "train"), LONG_S, "the retraining")
        request = identity.checkpoint_request(artifacts, BOXES, "tiny.v2")
        assert "carried_from" not in request.inputs
        # A claim alone is nobody's work yet: whoever comes next rightly claims anew.
        wait_for(lambda: any(each.launch() for each in attempts_at(store, request.address)), LONG_S, "the training")
        server.kill()

    # Nobody is there to release the base, so that nothing on it goes to production, whoever asks.
    assert find_release(store, "tiny.v2") is None
    now = Decision(actor="ann", reason="now", tenants=load_tenants(), tracking="")
    with pytest.raises(UserError, match=r"the base of tiny\.v2 is held"):
        promote(artifacts, carried.adapter, "production", now)
    with dagster_server(project, looks=LOOKS) as server:
        again = ended(store, retrained)
        assert again.status is ACCEPTED, again.reason
        release = wait_for(lambda: find_release(store, "tiny.v2"), LONG_S, "the release")
        assert "2 dependents: 1 passed (carried), 1 passed (retrained)" in release.reason
        assert standing(store, OTHER, "staging") == again.adapter
        for line in (LINE, OTHER):
            act(server, store, "promote", line, target=line, stage="production")
        assert standing(store, LINE, "production") == carried.adapter
        act(server, store, "rollback", LINE, line=LINE)
        runs = server.runs()

    assert standing(store, LINE, "production") == outcomes[LINE].adapter
    assert standing(store, OTHER, "production") == again.adapter
    is_carried(artifacts, carried.adapter)
    kinds = [(record.kind, record.stage, record.actor == "auto") for record in read_line(store, LINE).records]
    up = ("promotion", "staging", True), ("promotion", "production", False)
    assert kinds == [*up * 2, ("rollback", "production", False)]
    assert verify_line(artifacts, LINE).findings == []
    # Nothing was asked for, launched or made twice, the dead daemon's work included.
    submissions = all_submissions(store, "acme")
    assert len(submissions) == 5
    launched = Counter(
        (tags[SUBMISSION], run["jobName"])
        for run in runs
        if SUBMISSION in (tags := {tag["key"]: tag["value"] for tag in run["tags"]})
        and "dagster/parent_run_id" not in tags
    )
    assert set(launched.values()) == {1}
    assert {submission for submission, _ in launched} == {submission.id for submission in submissions}
    trained_once(store)
