"""Base bumps on a real instance: what is submitted for adapters whose base moved, and when the base is released."""

import json
from collections.abc import Sequence

import dagster as dg
import pytest
from typer.testing import CliRunner

from ft_assets import api
from ft_assets.cli.main import app
from ft_assets.control.base_bumps.bump import find_bump
from ft_assets.control.base_bumps.progress import standings
from ft_assets.control.base_bumps.report import rows
from ft_assets.control.lines.lines import append
from ft_assets.control.lines.releases import find_release
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.submit import submit
from ft_assets.records.retired_datasets import retire
from ft_assets.records.submissions import Submission, SubmissionStatus, finish, open_submissions, submission_id
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Artifact
from ft_resources.dagster_resources import HubResource, StoreResource
from ft_resources.errors import UserError
from ft_sensors.base_bumps import base_bump_sensor
from ft_sensors.base_revisions import base_revision_sensor
from ft_sensors.retraining import retraining_sensor
from tests.control.lines.promotable import made_record
from tests.e2e.project import Project
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub
from tests.sensors.conftest import add_version, subscribe
from tests.sensors.words import sentence
from tests.workers.evals.world import World

pytestmark = pytest.mark.dagster


@pytest.fixture
def hub(project: Project, monkeypatch: pytest.MonkeyPatch) -> FakeHub:
    hub = FakeHub()
    hub.commit("org/tiny", project.folder / "base")
    monkeypatch.setattr("ft_resources.dagster_resources.HuggingFaceHub", lambda endpoint: hub)
    return hub


def say(project: Project, instance: dg.DagsterInstance, sensor: dg.SensorDefinition, **resources: object) -> str:
    context = dg.build_sensor_context(instance=instance)
    reason = sensor(context, store=StoreResource(url=project.store_url), **resources)
    return sentence(reason)


def tick(project: Project, instance: dg.DagsterInstance) -> str:
    return say(project, instance, base_bump_sensor)


def move(project: Project, instance: dg.DagsterInstance, hub: FakeHub, seed: int = 7) -> str:
    hub.commit("org/tiny", make_fake_base(project.folder / f"patched-{seed}", seed=seed))
    return say(project, instance, base_revision_sensor, hub=HubResource())


def accept(project: Project, dataset: str, recipe: str = "tiny.v1", gates: Sequence[str] = ()) -> Artifact:
    """The pair as if it had been trained and accepted."""
    world = World(store=project.store, folder=project.folder)
    params = {"dataset": dataset, "recipe": recipe}
    checkpoint = world.publish("checkpoint", {"final/adapter_config.json": b"{}"}, params=params)
    adapter = world.publish("adapter", {"README.md": b"-"}, inputs={"checkpoint": checkpoint}, params=params)
    asked, _ = submit(
        project.store,
        load_tenants(),
        dataset=dataset,
        recipe=recipe,
        actor="ann",
        origin="cli",
        idempotency_key="ask-1",
        gates=gates,
    )
    finish(project.store, asked, SubmissionStatus.ACCEPTED, adapter=str(adapter.address))
    return adapter


def opened(project: Project) -> dict[str, Submission]:
    return {f"{each.mode} {each.dataset}": each for each in open_submissions(project.store)}


def steps(project: Project, recipe: str = "tiny.v2") -> dict[str, str]:
    bump = find_bump(project.store, recipe)
    assert bump is not None
    return {row.dataset: row.step for row in rows(standings(project.store, bump))}


@pytest.fixture
def accepted(project: Project, hub: FakeHub) -> list[str]:
    """Dataset versions of three lines with adapters on the old base, of which acme subscribes to one."""
    register_recipe(project.store, project.recipe(base="hub:org/tiny@main"), actor="ann", hub=hub)
    subscribe(project, "tiny.v1", per_day=1)
    keys = [add_version(project)]
    pointer = project.store.get_json(f"names/dataset/{keys[0]}.json")
    for name in ("other", "third"):
        keys.append(f"acme.{name}.v1")
        project.store.create_json(f"names/dataset/{keys[-1]}.json", pointer)
    for key in keys:
        accept(project, key)
    return keys


def test_the_whole_bump_carry_retrain_what_failed_release(
    project: Project, instance, hub: FakeHub, accepted: list[str]
) -> None:
    first, second, third = accepted
    store = project.store
    assert tick(project, instance) == "checked 0 open base bumps"
    move(project, instance, hub)
    # The subscribed line is the bump's: nobody trains it again before it was carried.
    assert "0 submitted" in say(project, instance, retraining_sensor)
    assert "3 carries and 0 retrainings submitted" in tick(project, instance)
    carries = opened(project)
    assert set(carries) == {f"carry {key}" for key in accepted}
    assert {each.recipe for each in carries.values()} == {"tiny.v2"}
    assert find_release(store, "tiny.v2") is None
    with dg.instance_for_test() as rebuilt:
        assert "0 carries and 0 retrainings submitted; 3 dependents: 3 being carried" in tick(project, rebuilt)

    finish(store, carries[f"carry {first}"], SubmissionStatus.ACCEPTED, adapter="acme/adapter/new")
    for key in (second, third):
        finish(store, carries[f"carry {key}"], SubmissionStatus.REJECTED, reason="task_gain: fail")
    # A budget of one training a day.
    assert "0 carries and 1 retrainings submitted, 1 wait for tomorrow's budget of 1" in tick(project, instance)
    assert "0 retrainings submitted, 1 wait for tomorrow's budget of 1" in tick(project, instance)
    assert steps(project) == {first: "passed (carried)", second: "being retrained", third: "to be retrained"}
    subscribe(project, "tiny.v1", per_day=2)
    tick(project, instance)
    trainings = opened(project)
    assert set(trainings) == {f"train {second}", f"train {third}"}
    finish(store, trainings[f"train {second}"], SubmissionStatus.ACCEPTED, adapter="acme/adapter/newer")
    assert find_release(store, "tiny.v2") is None
    finish(store, trainings[f"train {third}"], SubmissionStatus.REJECTED, reason="task_gain: fail")
    assert "tiny.v2: released" in tick(project, instance)
    release = find_release(store, "tiny.v2")
    assert release is not None
    assert release.reason.endswith("3 dependents: 1 failed, 1 passed (carried), 1 passed (retrained)")
    assert tick(project, instance) == "checked 0 open base bumps"


def test_the_blast_radius_is_shown(
    project: Project, instance, hub: FakeHub, accepted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_STORE", project.store_url)
    monkeypatch.chdir(project.folder)
    assert CliRunner().invoke(app, ["base-bump", "tiny.v2"]).exit_code == 2
    move(project, instance, hub)
    tick(project, instance)
    asked = opened(project)[f"carry {accepted[0]}"]
    finish(project.store, asked, SubmissionStatus.REJECTED, reason="task_gain: fail")
    shown = json.loads(CliRunner().invoke(app, ["base-bump", "tiny.v2", "--json"]).stdout)
    assert shown["released"] is None
    assert {row["line"]: (row["step"], row["reason"]) for row in shown["dependents"]} == {
        "acme.things.tiny": ("to be retrained", "task_gain: fail"),
        "acme.other.tiny": ("being carried", ""),
        "acme.third.tiny": ("being carried", ""),
    }
    said = CliRunner().invoke(app, ["base-bump", "tiny.v2"])
    assert "its base is held" in said.stderr


def test_a_dependent_that_is_deleted_is_left_out_and_not_waited_for(
    project: Project, instance, hub: FakeHub, accepted: list[str]
) -> None:
    move(project, instance, hub)
    tick(project, instance)
    for key, each in opened(project).items():
        if not key.endswith(accepted[0]):
            finish(project.store, each, SubmissionStatus.ACCEPTED, adapter="acme/adapter/new")
    delete(project.store, Subject.dataset(DatasetKey.parse(accepted[0])), actor="ann", reason="contract ended")
    assert "released; 3 dependents: 1 left out, 2 passed (carried)" in tick(project, instance)


def test_a_dependent_whose_version_is_retired_is_left_out_and_not_waited_for(
    project: Project, instance, hub: FakeHub, accepted: list[str]
) -> None:
    retire(project.store, accepted[0], actor="retention_sensor", reason="keep_versions: 1")
    move(project, instance, hub)
    tick(project, instance)
    for each in opened(project).values():
        finish(project.store, each, SubmissionStatus.ACCEPTED, adapter="acme/adapter/new")
    assert "released; 3 dependents: 1 left out, 2 passed (carried)" in tick(project, instance)


def test_a_bump_and_a_carry_can_be_started_by_hand(project: Project, hub: FakeHub, accepted: list[str]) -> None:
    assert api.start_base_bump("tiny.v1", hub=hub, store=project.store) == ("", [])
    hub.commit("org/tiny", make_fake_base(project.folder / "patched", seed=7))
    assert api.start_base_bump("tiny.v1", hub=hub, store=project.store) == ("tiny.v2", [])
    assert api.carry(accepted[1], "tiny.v2", store=project.store, actor="ann")
    assert not api.carry(accepted[1], "tiny.v2", store=project.store)
    assert steps(project)[accepted[1]] == "being carried"
    assert [each.actor for each in open_submissions(project.store)] == ["ann"]
    with pytest.raises(UserError, match=r"nothing of acme\.unknown\.v1 depends on the base"):
        api.carry("acme.unknown.v1", "tiny.v2", store=project.store)
    with pytest.raises(UserError, match=r"tiny\.v1 is not the successor in any base bump"):
        api.carry(accepted[1], "tiny.v1", store=project.store)


def test_no_more_carries_are_open_than_the_limit(
    project: Project, instance, hub: FakeHub, accepted: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(api.advance_base_bumps.__kwdefaults__, "most_open", 2)
    move(project, instance, hub)
    for _ in range(2):
        tick(project, instance)
        assert len(opened(project)) == 2


def test_a_training_asked_for_by_hand_outweighs_the_carry(
    project: Project, instance, hub: FakeHub, accepted: list[str]
) -> None:
    move(project, instance, hub)
    submit(
        project.store,
        load_tenants(),
        dataset=accepted[1],
        recipe="tiny.v2",
        actor="ann",
        origin="ui",
        idempotency_key="mine",
    )
    tick(project, instance)
    assert steps(project)[accepted[1]] == "being retrained"
    assert f"carry {accepted[1]}" not in opened(project)


def test_the_dependents_are_what_stands_in_a_stage_else_the_highest_version_with_its_gates(
    project: Project, instance, hub: FakeHub, accepted: list[str]
) -> None:
    store = project.store
    pointer = store.get_json(f"names/dataset/{accepted[0]}.json")
    for key in ("acme.other.v2", "acme.third.v2"):
        store.create_json(f"names/dataset/{key}.json", pointer)
    accept(project, "acme.third.v2", gates=["exact_match > 0.6"])
    served = accept(project, "acme.other.v2")
    old = accept(project, "acme.other.v1", gates=["exact_match > 0.7"])
    append(store, made_record("acme.other.tiny").model_copy(update={"adapter": old.ref, "stage": "production"}))
    move(project, instance, hub)
    bump = find_bump(store, "tiny.v2")
    assert bump is not None
    assert {each.dataset: each.gates for each in bump.dependents} == {
        "acme.other.v1": ("exact_match > 0.7",),
        "acme.third.v2": ("exact_match > 0.6",),
        "acme.things.v1": (),
    }
    assert served.address != old.address
    tick(project, instance)
    assert opened(project)["carry acme.third.v2"].gates == ("exact_match > 0.6",)


def test_a_damaged_record_is_named_and_hides_no_other_dependent(
    project: Project, instance, hub: FakeHub, accepted: list[str]
) -> None:
    broken = accept(project, accepted[1])
    accept(project, accepted[2], gates=["exact_match > 0.6"])
    project.store.put(f"{broken.address}/manifest.json", b"{}")
    asked = submission_id(accepted[2], "tiny.v1", "ask-1", ["exact_match > 0.6"])
    project.store.put(f"acme/submissions/{asked}.json", b'{"id": 3}')
    said = move(project, instance, hub)
    assert f"{broken.address}: the manifest cannot be read" in said
    assert f"acme/submissions/{asked}.json" in said
    bump = find_bump(project.store, "tiny.v2")
    assert bump is not None
    assert {each.dataset for each in bump.dependents} == {accepted[0], accepted[2]}


def test_a_base_that_moves_again_is_carried_to_from_what_was_reached(
    project: Project, instance, hub: FakeHub, accepted: list[str]
) -> None:
    first, second, third = accepted
    move(project, instance, hub)
    tick(project, instance)
    reached = accept_carry(project, first)
    move(project, instance, hub, seed=8)
    said = tick(project, instance)
    assert "tiny.v2: its base moved again; tiny.v3 replaces this bump" in said
    bump = find_bump(project.store, "tiny.v3")
    assert bump is not None
    assert {each.dataset: each.recipe for each in bump.dependents} == {
        first: "tiny.v2",
        second: "tiny.v1",
        third: "tiny.v1",
    }
    assert next(each for each in bump.dependents if each.dataset == first).adapter == reached.ref
    assert find_release(project.store, "tiny.v2") is None


def accept_carry(project: Project, dataset: str) -> Artifact:
    world = World(store=project.store, folder=project.folder / "carried")
    params = {"dataset": dataset, "recipe": "tiny.v2"}
    checkpoint = world.publish("checkpoint", {"final/adapter_config.json": b"{}"}, params=params)
    adapter = world.publish("adapter", {"README.md": b"-"}, inputs={"checkpoint": checkpoint}, params=params)
    asked = opened(project)[f"carry {dataset}"]
    finish(project.store, asked, SubmissionStatus.ACCEPTED, adapter=str(adapter.address))
    return adapter
