"""The whole loop, unattended: two lines on one base, a real daemon that is killed once, and a Hub over HTTP.

A new dataset version is trained, gated and promoted; the base moves, so that one old adapter is carried and the other
trained again; the base is released, and a line goes to production and back.
"""

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
from ft_assets.records.submissions import (
    SubmissionStatus,
    all_submissions,
)
from ft_assets.settings.tags import SUBMISSION
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import UserError
from ft_resources.store import Store
from tests.e2e.dagster_server import dagster_server, wait_for
from tests.e2e.loop_world import LONG, act, asked, ended, hub_with_recipe, standing, upload
from tests.e2e.project import Project, make_project
from tests.fake_hub import FakeHub
from tests.safe_base import move_capitals
from tests.workers.evals.safety_world import write_safety_suite

pytestmark = pytest.mark.e2e

LINE, OTHER = "acme.things.tiny", "acme.boxes.tiny"
ACCEPTED, REJECTED = SubmissionStatus.ACCEPTED, SubmissionStatus.REJECTED


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = make_project(tmp_path / "project")
    subscriptions = "".join(f"      - {{dataset: {name}, recipe: tiny.v1}}\n" for name in ("things", "boxes"))
    # The suite is too small to show that nothing is lost.
    floor = "production_regression: {max_drop_points: 100.0}"
    tenants = f'served_bases: ["hub:org/tiny"]\n{floor}\ntenants:\n  acme:\n    subscriptions:\n{subscriptions}'
    (project.folder / "tenants.yaml").write_text(tenants)
    monkeypatch.setenv("FT_TENANTS", str(project.folder / "tenants.yaml"))
    monkeypatch.setenv("FT_SENSOR_SECONDS", "2")
    monkeypatch.setenv("FT_TRACKING", "off")
    add_suite(project.store, write_safety_suite(project.folder / "care"), "care.v1", "test")
    return project


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeHub]:
    with hub_with_recipe(project, monkeypatch) as hub:
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
    assert Counter(address.split("/")[1] for address, count in attempts.items() if count)["checkpoint"] == 4


def test_upload_retrain_promote_bump_carry_retrain_release_rollback(project: Project, hub: FakeHub) -> None:
    store, artifacts = project.store, Artifacts(project.store)
    upload(project, "things", 160)
    upload(project, "boxes", 160, capitals=True)
    with dagster_server(project) as server:
        # Both lines are subscribed, so their first versions are trained, and staged by the recipe's margin.
        for pair, line in (("acme.things.v1|tiny.v1", LINE), ("acme.boxes.v1|tiny.v1", OTHER)):
            outcome = ended(store, pair)
            assert outcome.status is ACCEPTED, outcome.reason
            assert standing(store, line, "staging") == outcome.adapter
            assert standing(store, line, "production") == ""
        act(server, store, "promote", LINE, target=LINE, stage="production")

        upload(project, "things", 180)
        second = ended(store, "acme.things.v2|tiny.v1")
        assert second.status is ACCEPTED, second.reason
        staged = read_line(store, LINE).at("staging")
        assert staged is not None
        assert (staged.adapter.address, staged.actor) == (second.adapter, "auto")
        act(server, store, "promote", LINE, target=LINE, stage="production")
        assert standing(store, LINE, "production") == second.adapter

        # The base moves: what stands in a stage is carried to the successor, whose base is held.
        hub.commit("org/tiny", move_capitals(project.folder / "safe", project.folder / "moved"))
        carried = ended(store, "acme.things.v2|tiny.v2", "carry")
        assert carried.status is ACCEPTED, carried.reason
        assert standing(store, LINE, "staging") == carried.adapter
        bump = find_bump(store, "tiny.v2")
        assert bump is not None
        assert {each.dataset for each in bump.dependents} == {"acme.things.v2", "acme.boxes.v1"}
        failed = ended(store, "acme.boxes.v1|tiny.v2", "carry")
        assert failed.status is REJECTED
        assert "task_gain: fail" in failed.reason
        retrained = "acme.boxes.v1|tiny.v2"
        wait_for(lambda: asked(store, retrained, "train"), LONG, "the retraining")
        request = identity.checkpoint_request(artifacts, "acme.boxes.v1", "tiny.v2")
        # A claim alone is nobody's work yet: whoever comes next rightly claims anew.
        wait_for(lambda: any(each.launch() for each in attempts_at(store, request.address)), LONG, "the training")
        server.kill()

    # Nobody is there to release the base, so that nothing on it goes to production, whoever asks.
    now = Decision(actor="ann", reason="now", tenants=load_tenants(), tracking="")
    with pytest.raises(UserError, match=r"the base of tiny\.v2 is held"):
        promote(artifacts, carried.adapter, "production", now)
    with dagster_server(project) as server:
        again = ended(store, retrained)
        assert again.status is ACCEPTED, again.reason
        release = wait_for(lambda: find_release(store, "tiny.v2"), LONG, "the release")
        assert "2 dependents: 1 passed (carried), 1 passed (retrained)" in release.reason
        assert standing(store, OTHER, "staging") == again.adapter
        for line in (LINE, OTHER):
            act(server, store, "promote", line, target=line, stage="production")
        assert standing(store, LINE, "production") == carried.adapter
        act(server, store, "rollback", LINE, line=LINE)
        runs = server.runs()

    assert standing(store, LINE, "production") == second.adapter
    assert standing(store, OTHER, "production") == again.adapter
    kinds = [(record.kind, record.stage, record.actor == "auto") for record in read_line(store, LINE).records]
    up = ("promotion", "staging", True), ("promotion", "production", False)
    assert kinds == [*up * 3, ("rollback", "production", False)]
    assert verify_line(artifacts, LINE).findings == []
    # Nothing was asked for, launched or made twice, the dead daemon's work included.
    submissions = all_submissions(store, "acme")
    assert len(submissions) == 6
    launched = Counter(
        (tags[SUBMISSION], run["jobName"])
        for run in runs
        if SUBMISSION in (tags := {tag["key"]: tag["value"] for tag in run["tags"]})
        and "dagster/parent_run_id" not in tags
    )
    assert set(launched.values()) == {1}
    assert {submission for submission, _ in launched} == {submission.id for submission in submissions}
    trained_once(store)
