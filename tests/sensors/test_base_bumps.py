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
from ft_assets.records.retired_datasets import retire
from ft_assets.records.submissions import Submission, SubmissionStatus, finish, open_submissions, submission_id
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Artifact
from ft_resources.dagster_resources import HubResource
from ft_resources.errors import UserError
from ft_sensors.base_bumps import base_bump_sensor
from ft_sensors.base_revisions import base_revision_sensor
from ft_sensors.retraining import retraining_sensor
from tests.control.lines.promotable import made_record
from tests.e2e.project import Project
from tests.fake_base import make_fake_base
from tests.fake_hub import FakeHub
from tests.made import submitted
from tests.sensors.conftest import add_version, register, say, subscribe
from tests.workers.evals.world import World

pytestmark = pytest.mark.dagster


def tick(project: Project, instance: dg.DagsterInstance) -> str:
    return say(project, instance, base_bump_sensor)


def move(project: Project, instance: dg.DagsterInstance, hub: FakeHub, seed: int = 7) -> str:
    hub.commit("org/tiny", make_fake_base(project.folder / f"patched-{seed}", seed=seed))
    return say(project, instance, base_revision_sensor, hub=HubResource())


def leave_adapter(project: Project, dataset: str, recipe: str, folder: str = "") -> Artifact:
    world = World(store=project.store, folder=project.folder / folder)
    params = {"dataset": dataset, "recipe": recipe}
    checkpoint = world.publish("checkpoint", {"final/adapter_config.json": b"{}"}, params=params)
    return world.publish("adapter", {"README.md": b"-"}, inputs={"checkpoint": checkpoint}, params=params)


def accept(project: Project, dataset: str, gates: Sequence[str] = ()) -> Artifact:
    """The pair as if it had been trained and accepted."""
    adapter = leave_adapter(project, dataset, "tiny.v1")
    asked = submitted(project.store, dataset, "tiny.v1", gates=gates)
    finish(project.store, asked, SubmissionStatus.ACCEPTED, adapter=str(adapter.address))
    return adapter


def end(project: Project, asked: Submission, *, well: bool = True) -> None:
    """A carry or retraining as if it had been accepted, or rejected."""
    ended = {"status": SubmissionStatus.ACCEPTED, "adapter": "acme/adapter/new"}
    rejected = {"status": SubmissionStatus.REJECTED, "reason": "task_gain: fail"}
    finish(project.store, asked, **(ended if well else rejected))


def opened(project: Project) -> dict[str, Submission]:
    return {f"{each.mode} {each.dataset}": each for each in open_submissions(project.store)}


def steps(project: Project, recipe: str = "tiny.v2") -> dict[str, str]:
    bump = find_bump(project.store, recipe)
    assert bump is not None
    return {row.dataset: row.step for row in rows(standings(project.store, bump))}


@pytest.fixture
def accepted(project: Project, hub: FakeHub) -> list[str]:
    """Dataset versions of three lines with adapters on the old base, of which acme subscribes to one."""
    register(project, hub=hub)
    subscribe(project, "tiny.v1", per_day=1)
    keys = [add_version(project)]
    pointer = project.store.get_json(f"names/dataset/{keys[0]}.json")
    for name in ("other", "third"):
        keys.append(f"acme.{name}.v1")
        project.store.create_json(f"names/dataset/{keys[-1]}.json", pointer)
    for key in keys:
        accept(project, key)
    return keys


def test_the_whole_bump_carry_retrain_what_failed_release(project, instance, hub, accepted) -> None:
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
    with dg.DagsterInstance.ephemeral() as rebuilt:
        assert "0 carries and 0 retrainings submitted; 3 dependents: 3 being carried" in tick(project, rebuilt)

    end(project, carries[f"carry {first}"])
    for key in (second, third):
        end(project, carries[f"carry {key}"], well=False)
    # A budget of one training a day.
    assert "0 carries and 1 retrainings submitted, 1 are queued for tomorrow's budget of 1" in tick(project, instance)
    assert "0 retrainings submitted, 1 are queued for tomorrow's budget of 1" in tick(project, instance)
    assert steps(project) == {first: "passed (carried)", second: "being retrained", third: "to be retrained"}
    subscribe(project, "tiny.v1", per_day=2)
    tick(project, instance)
    trainings = opened(project)
    assert set(trainings) == {f"train {second}", f"train {third}"}
    end(project, trainings[f"train {second}"])
    assert find_release(store, "tiny.v2") is None
    end(project, trainings[f"train {third}"], well=False)
    assert "tiny.v2: released" in tick(project, instance)
    release = find_release(store, "tiny.v2")
    assert release.reason.endswith("3 dependents: 1 failed, 1 passed (carried), 1 passed (retrained)")
    assert tick(project, instance) == "checked 0 open base bumps"


def test_the_blast_radius_is_shown(project, instance, hub, accepted, monkeypatch) -> None:
    monkeypatch.setenv("FT_STORE", project.store_url)
    monkeypatch.chdir(project.folder)
    assert CliRunner().invoke(app, ["base-bump", "tiny.v2"]).exit_code == 2
    move(project, instance, hub)
    tick(project, instance)
    end(project, opened(project)[f"carry {accepted[0]}"], well=False)
    shown = json.loads(CliRunner().invoke(app, ["base-bump", "tiny.v2", "--json"]).stdout)
    assert shown["released"] is None
    assert {row["line"]: (row["step"], row["reason"]) for row in shown["dependents"]} == {
        "acme.things.tiny": ("to be retrained", "task_gain: fail"),
        "acme.other.tiny": ("being carried", ""),
        "acme.third.tiny": ("being carried", ""),
    }
    said = CliRunner().invoke(app, ["base-bump", "tiny.v2"])
    assert "its base is held" in said.stderr


@pytest.mark.parametrize("gone", ["deleted", "retired"])
def test_a_dependent_that_is_deleted_or_whose_version_is_retired_is_left_out_and_not_waited_for(
    project, instance, hub, accepted, gone
) -> None:
    key = accepted[0]
    if gone == "retired":
        retire(project.store, key, actor="retention_sensor", reason="keep_versions: 1")
    move(project, instance, hub)
    tick(project, instance)
    for name, each in opened(project).items():
        if not name.endswith(key):
            end(project, each)
    if gone == "deleted":
        delete(project.store, Subject.dataset(DatasetKey.parse(key)), actor="ann", reason="contract ended")
    assert "released; 3 dependents: 1 left out, 2 passed (carried)" in tick(project, instance)


def test_a_bump_and_a_carry_can_be_started_by_hand(project: Project, hub: FakeHub, accepted: list[str]) -> None:
    assert api.start_base_bump("tiny.v1", hub=hub, store=project.store) == ("", [])
    hub.commit("org/tiny", make_fake_base(project.folder / "patched", seed=7))
    assert api.start_base_bump("tiny.v1", hub=hub, store=project.store) == ("tiny.v2", [])
    assert api.carry(accepted[1], "tiny.v2", store=project.store, actor="ann")
    assert not api.carry(accepted[1], "tiny.v2", store=project.store)
    assert steps(project)[accepted[1]] == "being carried"
    assert [each.actor for each in open_submissions(project.store)] == ["ann"]
    with pytest.raises(UserError, match=r"nothing in acme\.unknown\.v1 depends on the previous base"):
        api.carry("acme.unknown.v1", "tiny.v2", store=project.store)
    with pytest.raises(UserError, match=r"tiny\.v1 is not the successor in any base bump"):
        api.carry(accepted[1], "tiny.v1", store=project.store)


def test_no_more_carries_are_open_than_the_limit(project, instance, hub, accepted, monkeypatch) -> None:
    monkeypatch.setitem(api.advance_base_bumps.__kwdefaults__, "most_open", 2)
    move(project, instance, hub)
    for _ in range(2):
        tick(project, instance)
        assert len(opened(project)) == 2


def test_a_training_asked_for_by_hand_outweighs_the_carry(project, instance, hub, accepted) -> None:
    move(project, instance, hub)
    submitted(project.store, accepted[1], "tiny.v2", key="mine")
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
    assert {each.dataset: each.gates for each in bump.dependents} == {
        "acme.other.v1": ("exact_match > 0.7",),
        "acme.third.v2": ("exact_match > 0.6",),
        "acme.things.v1": (),
    }
    assert served.address != old.address
    tick(project, instance)
    assert opened(project)["carry acme.third.v2"].gates == ("exact_match > 0.6",)


def test_a_damaged_record_is_named_and_hides_no_other_dependent(project, instance, hub, accepted) -> None:
    broken = accept(project, accepted[1])
    accept(project, accepted[2], gates=["exact_match > 0.6"])
    project.store.put(f"{broken.address}/manifest.json", b"{}")
    asked = submission_id(accepted[2], "tiny.v1", "ask-1", ["exact_match > 0.6"])
    project.store.put(f"acme/submissions/{asked}.json", b'{"id": 3}')
    said = move(project, instance, hub)
    assert f"{broken.address}: the manifest cannot be read" in said
    assert f"acme/submissions/{asked}.json" in said
    bump = find_bump(project.store, "tiny.v2")
    assert {each.dataset for each in bump.dependents} == {accepted[0], accepted[2]}


def test_a_base_that_moves_again_is_carried_to_from_what_was_reached(project, instance, hub, accepted) -> None:
    store, (first, second, third) = project.store, accepted
    move(project, instance, hub)
    tick(project, instance)
    reached = leave_adapter(project, first, "tiny.v2", "carried")
    finish(store, opened(project)[f"carry {first}"], SubmissionStatus.ACCEPTED, adapter=str(reached.address))
    move(project, instance, hub, seed=8)
    said = tick(project, instance)
    assert "tiny.v2: its base moved again; tiny.v3 replaces this bump" in said
    bump = find_bump(store, "tiny.v3")
    assert {each.dataset: each.recipe for each in bump.dependents} == {
        first: "tiny.v2",
        second: "tiny.v1",
        third: "tiny.v1",
    }
    assert next(each for each in bump.dependents if each.dataset == first).adapter == reached.ref
    assert find_release(project.store, "tiny.v2") is None
