"""Leftovers on a real instance and store."""

from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest

from ft_assets.api import retention
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.retention.collect_unreferenced import FOLDER
from ft_assets.graph.jobs.retention import collect_unreferenced_job
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import Attempt
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.outcomes import Outcome
from ft_sensors.leftovers import leftovers_sensor
from tests.e2e.project import Project
from tests.sensors.words import sentence
from tests.workers.evals.world import World

pytestmark = pytest.mark.dagster


def tick(project: Project, instance: dg.DagsterInstance, cursor: str = "") -> tuple[object, str]:
    context = dg.build_sensor_context(instance=instance, cursor=cursor)
    found = leftovers_sensor(
        context, store=StoreResource(url=project.store_url), launcher=LauncherResource(kind="local")
    )
    return found, (found.cursor if isinstance(found, dg.SensorResult) else context.cursor) or ""


def configure(project: Project, rule: str) -> None:
    (project.folder / "tenants.yaml").write_text(f"retention: {{leftovers: {rule}}}\n")


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


def test_it_is_off_unless_it_is_configured(project: Project, instance: dg.DagsterInstance, attempt: Attempt) -> None:
    found, _ = tick(project, instance)
    assert sentence(found) == "no retention.leftovers rule applies here"
    assert attempt.log() == "words"


def test_it_says_what_it_removed_and_leaves_what_a_run_works_at(
    project: Project, instance: dg.DagsterInstance, attempt: Attempt
) -> None:
    configure(project, "{attempt_days: 7}")
    run = dg.DagsterRun(
        job_name="prepare_dataset",
        tags={"dagster/partition": "acme.things.v1|tiny.v1"},
        status=dg.DagsterRunStatus.STARTED,
    )
    instance.add_run(run)
    found, _ = tick(project, instance)
    assert sentence(found) == "checked 2 addresses: 0 leftovers removed (0 objects, 0.0 MB), 0 attempts ended"
    instance.report_run_canceled(run)
    found, _ = tick(project, instance)
    assert isinstance(found, dg.SkipReason)
    assert "1 leftovers removed (1 objects" in str(found.skip_message)
    assert attempt.log() == ""
    assert attempt.ending() is not None


def test_the_job_for_what_nothing_leads_to_is_asked_for_once_a_day(
    project: Project, instance: dg.DagsterInstance
) -> None:
    configure(project, "{unreferenced_days: 30}")
    register_recipe(project.store, project.recipe(), actor="ann")
    world = World(store=project.store, folder=project.folder)
    stray = world.publish("token_pack", {"tokens.bin": b"1"})
    found, cursor = tick(project, instance)
    assert isinstance(found, dg.SensorResult)
    (request,) = found.run_requests or []
    assert request.run_key == f"collect_unreferenced:{datetime.now(UTC).date()}"
    again, _ = tick(project, instance, cursor)
    assert isinstance(again, dg.SkipReason)
    # A cursor that is lost asks again, under the same key.
    repeated, _ = tick(project, instance)
    assert isinstance(repeated, dg.SensorResult)
    assert [each.run_key for each in repeated.run_requests or []] == [request.run_key]
    done = collect_unreferenced_job.execute_in_process(
        instance=instance, resources={"store": StoreResource(url=project.store_url)}
    )
    assert done.success
    assert [entry.path for entry in project.store.entries(FOLDER)] == [
        f"{FOLDER}/acme/token_pack.{stray.address.fingerprint}.json"
    ]
    assert Artifacts(project.store).find(stray.address) is not None


@pytest.mark.parametrize("data", [b"{", b"[]", b'{"outcome": "preempted", "at": "soon"}'])
def test_what_cannot_be_read_is_left_alone_and_named_and_the_others_go_on(
    project: Project, instance: dg.DagsterInstance, attempt: Attempt, data: bytes
) -> None:
    configure(project, "{attempt_days: 7}")
    project.store.put(f"{attempt.path}/outcome.json", data)
    other = f"globex/dataset/{'f' * 64}/w1/rows"
    project.store.put(other, b"half")
    found, _ = tick(project, instance)
    assert isinstance(found, dg.SkipReason)
    assert f"1 left alone as they cannot be read (first: {attempt.address}/attempts" in str(found.skip_message)
    assert attempt.log() == "words"
    assert not project.store.exists(other)


def test_a_tenants_file_that_means_nothing_stops_it(
    project: Project, instance: dg.DagsterInstance, attempt: Attempt
) -> None:
    configure(project, "{attempt_days: 0}")
    found, _ = tick(project, instance)
    assert isinstance(found, dg.SkipReason)
    assert "attempt_days" in str(found.skip_message)
    assert attempt.log() == "words"
