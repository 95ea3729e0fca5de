"""Retention and leftovers on a real instance and store."""

from datetime import UTC, datetime, timedelta
from typing import Any

import dagster as dg
import pytest

from ft_assets.api import rebuild, retention
from ft_assets.control.lines.lines import append
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.control.retention.collect_unreferenced import FOLDER
from ft_assets.graph.jobs.retention import collect_unreferenced_job
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.retired_datasets import retired_datasets
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.records.tombstones import Subject, find_tombstone
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import Attempt
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import UserError
from ft_resources.outcomes import Outcome
from ft_sensors.leftovers import leftovers_sensor
from ft_sensors.retention import retention_sensor
from tests.control.lines.promotable import made_record
from tests.e2e.project import Project
from tests.made import submitted
from tests.sensors.conftest import add_version, look, register, say, sentence
from tests.workers.evals.world import World

pytestmark = pytest.mark.dagster


def tick(project: Project, instance: dg.DagsterInstance) -> str:
    return say(project, instance, retention_sensor)


def configure(project: Project, rule: str) -> None:
    (project.folder / "tenants.yaml").write_text(f"retention: {rule}\n")


@pytest.fixture
def versions(project: Project, instance: dg.DagsterInstance) -> list[str]:
    keys = [add_version(project, rows) for rows in (160, 170, 180, 190)]
    for key in keys:
        list_keys(instance, dataset=key)
    return keys


def listed(instance: dg.DagsterInstance) -> set[str]:
    return set(instance.get_dynamic_partitions("dataset"))


def test_it_is_off_unless_it_is_configured_and_nothing_is_retired_while_something_cannot_be_read(
    project, instance, versions
) -> None:
    assert tick(project, instance) == "no retention is configured"
    assert listed(instance) == set(versions)
    configure(project, "{keep_versions: 1}")
    project.store.put("acme/lines/acme.things.tiny/000001.json", b"{}")
    assert "nothing is retired while a record cannot be read" in tick(project, instance)
    assert retired_datasets(project.store) == set()
    assert listed(instance) == set(versions)


def test_what_production_or_an_open_submission_needs_stays_and_the_rest_goes_for_good(
    project: Project, instance: dg.DagsterInstance, versions: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FT_TRACKING", "off")
    store, (served, asked, old, newest) = project.store, versions
    register(project)
    upload = Artifacts(store).get(Address.parse(store.get_json(f"names/dataset/{served}.json")["address"]))
    world = World(store=store, folder=project.folder)
    adapter = world.publish("adapter", {"README.md": b"-"}, inputs={"dataset": upload})
    append(store, made_record("acme.things.tiny").model_copy(update={"adapter": adapter.ref, "stage": "production"}))
    submission = submitted(store, asked, "tiny.v1", key="k")
    configure(project, "{keep_versions: 1}")

    said = tick(project, instance)
    assert said == "checked 4 dataset versions: 1 retired, 2 kept as something needs them; 1 keys removed from the list"
    assert retired_datasets(store) == {old}
    assert listed(instance) == {served, asked, newest}
    assert tick(project, instance) == "checked 3 dataset versions: 0 retired, 2 kept as something needs them"
    # Nobody works with it any more, nothing brings the key back, and the same upload is another version.
    with pytest.raises(UserError, match=r"was retired by retention_sensor .*keep_versions: 1"):
        submitted(store, old, "tiny.v1", key="k")
    with dg.DagsterInstance.ephemeral() as rebuilt:
        rebuild(store=store, orchestrator=Dagster(rebuilt))
        assert listed(rebuilt) == {served, asked, newest}
    again = add_dataset_version(
        store, project.dataset(180), tenant="acme", name="things", policy=DatasetPolicy(), actor="ann"
    )
    assert (str(again.key), again.created) == ("acme.things.v5", True)
    # What was needed goes when it is not.
    finish(store, submission, SubmissionStatus.CANCELLED)
    tick(project, instance)
    assert retired_datasets(store) == {old, asked, newest}
    assert find_tombstone(store, Subject.dataset(DatasetKey.parse(old))) is None


def test_a_key_stays_listed_while_a_run_works_with_it(project, instance, versions) -> None:
    from ft_assets.definitions import build_definitions

    job = build_definitions(project.store_url).resolve_job_def("prepare_dataset")
    run = instance.create_run_for_job(job, tags={"dagster/partition": versions[0]}, status=dg.DagsterRunStatus.STARTED)
    configure(project, "{keep_versions: 3}")
    assert "1 retired" in tick(project, instance)
    assert versions[0] in listed(instance)
    instance.report_run_canceled(run)
    assert "1 keys removed from the list" in tick(project, instance)
    assert versions[0] not in listed(instance)


def test_with_delete_the_bytes_go_by_a_tombstone_with_its_grace(project, instance, versions) -> None:
    configure(project, "{keep_versions: 2, delete: true}")
    tick(project, instance)
    for key in versions:
        found = find_tombstone(project.store, Subject.dataset(DatasetKey.parse(key)))
        assert (found is not None) == (key in versions[:2])
        assert found is None or (found.actor == "retention_sensor" and found.grace_days == 30)


def test_nothing_is_retired_while_something_that_production_was_made_of_is_missing(project, instance, versions) -> None:
    """The way from the adapter to its dataset leads through what is gone: what is not seen might be needed."""
    store = project.store
    upload = Artifacts(store).get(Address.parse(store.get_json(f"names/dataset/{versions[0]}.json")["address"]))
    world = World(store=store, folder=project.folder)
    checkpoint = world.publish("checkpoint", {"weights": b"-"}, inputs={"dataset": upload})
    adapter = world.publish("adapter", {"README.md": b"-"}, inputs={"checkpoint": checkpoint})
    append(store, made_record("acme.things.tiny").model_copy(update={"adapter": adapter.ref, "stage": "production"}))
    kept = store.get(f"{checkpoint.address}/manifest.json")
    store.delete(f"{checkpoint.address}/manifest.json")
    configure(project, "{keep_versions: 1, delete: true}")
    assert tick(project, instance).startswith("nothing is retired while a record cannot be read: ")
    assert retired_datasets(store) == set()
    store.create(f"{checkpoint.address}/manifest.json", kept)
    tick(project, instance)
    assert retired_datasets(store) == set(versions[1:3])


def collect(project: Project, instance: dg.DagsterInstance, cursor: str = "") -> Any:
    """The result of a tick of the sensor of leftovers."""
    return look(project, instance, leftovers_sensor, cursor=cursor, launcher=LauncherResource(kind="local"))


@pytest.fixture
def attempt(project: Project, monkeypatch: pytest.MonkeyPatch) -> Attempt:
    """A failed attempt of long ago, by the sensor's clock."""
    world = World(store=project.store, folder=project.folder)
    request = world.request("dataset", params={"failed": 1})
    attempt = Attempt(project.store, request.address, 1)
    attempt.claim("ann")
    attempt.write_spec(world.context(request).spec)
    attempt.complete_log(b"words")
    attempt.record_ending(Outcome.PLATFORM_ERROR)
    real = retention.collect_places
    now = datetime.now(UTC) + timedelta(days=8)
    monkeypatch.setattr(retention, "collect_places", lambda *given, **more: real(*given, **more, now=now))
    return attempt


def test_leftovers_go_after_a_week_unless_that_is_switched_off_or_the_file_means_nothing(
    project, instance, attempt
) -> None:
    configure(project, "{leftovers: {attempt_days: null}}")
    assert sentence(collect(project, instance)) == "no retention.leftovers rule applies here"
    configure(project, "{leftovers: {attempt_days: 0}}")
    assert "attempt_days" in sentence(collect(project, instance))
    assert attempt.log() == "words"
    configure(project, "{}")
    assert "1 leftovers removed" in sentence(collect(project, instance))
    assert attempt.log() == ""


def test_it_says_what_it_removed_and_leaves_what_a_run_works_at(project, instance, attempt) -> None:
    configure(project, "{leftovers: {attempt_days: 7}}")
    run = dg.DagsterRun(
        job_name="prepare_dataset",
        tags={"dagster/partition": "acme.things.v1|tiny.v1"},
        status=dg.DagsterRunStatus.STARTED,
    )
    instance.add_run(run)
    found = collect(project, instance)
    assert sentence(found) == "checked 2 addresses: 0 leftovers removed (0 objects, 0.0 MB), 0 attempts ended"
    instance.report_run_canceled(run)
    found = collect(project, instance)
    assert "1 leftovers removed (1 objects" in sentence(found)
    assert attempt.log() == ""
    assert attempt.ending() is not None


def test_the_job_for_what_nothing_leads_to_is_asked_for_once_a_day(project, instance) -> None:
    configure(project, "{leftovers: {unreferenced_days: 30}}")
    register(project)
    world = World(store=project.store, folder=project.folder)
    stray = world.publish("token_pack", {"tokens.bin": b"1"})
    found = collect(project, instance)
    (request,) = found.run_requests
    assert request.run_key == f"collect_unreferenced:{datetime.now(UTC).date()}"
    again = collect(project, instance, found.cursor)
    assert isinstance(again, dg.SkipReason)
    # A cursor that is lost asks again, under the same key.
    repeated = collect(project, instance)
    assert [each.run_key for each in repeated.run_requests] == [request.run_key]
    done = collect_unreferenced_job.execute_in_process(
        instance=instance, resources={"store": StoreResource(url=project.store_url)}
    )
    assert done.success
    assert [entry.path for entry in project.store.entries(FOLDER)] == [
        f"{FOLDER}/acme/token_pack.{stray.address.fingerprint}.json"
    ]
    assert Artifacts(project.store).find(stray.address) is not None


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"outcome": "preempted", "at": "soon"}'])
def test_what_cannot_be_read_is_left_alone_and_named_and_the_others_go_on(project, instance, attempt, data) -> None:
    configure(project, "{leftovers: {attempt_days: 7}}")
    project.store.put(f"{attempt.path}/outcome.json", data)
    other = f"globex/dataset/{'f' * 64}/w1/rows"
    project.store.put(other, b"half")
    found = collect(project, instance)
    assert f"1 skipped because they cannot be read (first: {attempt.address}/attempts" in sentence(found)
    assert attempt.log() == "words"
    assert not project.store.exists(other)
