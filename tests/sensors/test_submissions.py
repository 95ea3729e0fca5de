import dagster as dg
import pytest
from sqlalchemy.exc import OperationalError

from ft_assets.control.registry.register import register_recipe
from ft_assets.control.submissions.submit import submit
from ft_assets.records.submissions import SubmissionStatus, find_outcome
from ft_assets.settings import tags
from ft_assets.settings.tenants import load_tenants
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_sensors import submissions
from ft_sensors.submissions import submissions_sensor
from tests.e2e.project import Project
from tests.sensors.conftest import add_version

pytestmark = pytest.mark.dagster


def tick(instance: dg.DagsterInstance, project: Project, cursor: str = "") -> dg.SensorResult | dg.SkipReason:
    context = dg.build_sensor_context(instance=instance, cursor=cursor)
    found = submissions_sensor(context, store=StoreResource(url=project.store_url))
    assert isinstance(found, dg.SensorResult | dg.SkipReason)
    return found


def ask(project: Project, dataset: str, key: str = "ask-1"):
    return submit(
        project.store, load_tenants(), dataset=dataset, recipe="tiny.v1", actor="ann", origin="ui", idempotency_key=key
    )[0]


def launched(found: dg.SensorResult | dg.SkipReason) -> set[str]:
    assert isinstance(found, dg.SensorResult)
    return {str(request.partition_key) for request in found.run_requests or []}


def test_one_broken_record_keeps_nobody_else_waiting(project: Project, instance) -> None:
    """A corrupt manifest or submission used to end every tick, and with it everybody's submissions."""
    register_recipe(project.store, project.recipe(), actor="ann")
    broken, good, unreadable = (add_version(project, rows) for rows in (160, 170, 180))
    failed, _, garbled = ask(project, broken), ask(project, good), ask(project, unreadable)
    pointer = project.store.get_json(f"names/dataset/{broken}.json")
    project.store.put(f"{pointer['address']}/manifest.json", b"{}")
    project.store.put(garbled.path, b'{"id": 3}')
    assert launched(tick(instance, project)) == {good, "tiny.v1"}
    outcome = find_outcome(project.store, failed)
    assert outcome is not None
    assert outcome.status is SubmissionStatus.FAILED
    assert "manifest" in outcome.reason


def test_a_full_batch_goes_on_where_it_ended_without_reading_what_came_before(
    project: Project, instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    dataset = add_version(project)
    asked = sorted((ask(project, dataset, f"ask-{number}") for number in range(3)), key=lambda each: each.marker)
    monkeypatch.setattr(submissions, "_BATCH", 2)
    first = tick(instance, project)
    assert isinstance(first, dg.SensorResult)
    assert first.cursor == asked[1].marker
    read: list[str] = []
    get = Store.get
    monkeypatch.setattr(Store, "get", lambda self, path: read.append(path) or get(self, path))
    second = tick(instance, project, first.cursor)
    assert isinstance(second, dg.SensorResult)
    assert second.cursor == ""
    assert [path for path in read if "/submissions/" in path and "outcome" not in path] == [asked[2].path]


def test_a_tenant_at_its_limit_of_trainings_waits_and_others_do_not(project: Project, instance, monkeypatch) -> None:
    from ft_assets.control.submissions.plan import Present, Stage, Wanted

    (project.folder / "tenants.yaml").write_text("tenants: {acme: {quota: {concurrent: 2}}}\n")
    register_recipe(project.store, project.recipe(), actor="ann")
    datasets = [add_version(project, rows) for rows in (160, 170, 180)]
    for dataset in datasets:
        ask(project, dataset)
    ready = Present(done=frozenset({Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE}))
    monkeypatch.setattr(submissions, "_wanted", lambda *given: Wanted(submission=given[2], present=ready, runs={}))
    assert len(launched(tick(instance, project))) == 2
    run = instance.create_run_for_job(_some_job(), tags={tags.TENANT: "acme", tags.TRAINS: "true"})
    assert len(launched(tick(instance, project))) == 1
    instance.report_run_failed(run)
    assert len(launched(tick(instance, project))) == 2


def _some_job() -> dg.JobDefinition:
    @dg.op
    def nothing() -> None:
        pass

    @dg.job
    def some_training() -> None:
        nothing()

    return some_training


def test_a_submission_whose_runs_are_under_way_costs_no_look_at_what_it_made(
    project: Project, instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    asked = ask(project, add_version(project))
    first = tick(instance, project)
    assert isinstance(first, dg.SensorResult)
    started = [
        instance.add_run(
            dg.DagsterRun(job_name=str(request.job_name), tags=request.tags, status=dg.DagsterRunStatus.STARTED)
        )
        for request in first.run_requests or []
    ]
    monkeypatch.setattr("ft_assets.api.orchestration.present", lambda *_, **__: pytest.fail("it was looked at"))
    waiting = tick(instance, project)
    assert isinstance(waiting, dg.SkipReason)
    assert "1 wait, 0 ended" in str(waiting.skip_message)
    monkeypatch.undo()
    # One of the two is enough to look again.
    instance.report_run_canceled(started[0])
    tick(instance, project)
    outcome = find_outcome(project.store, asked)
    assert outcome is not None
    assert outcome.status is SubmissionStatus.CANCELLED


def test_launching_many_costs_one_query_for_each_list_and_none_about_what_is_not_there(
    project: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking for every launch and every stage was nearly all that a tick after a new version took."""
    register_recipe(project.store, project.recipe(), actor="ann")
    datasets = {add_version(project, rows) for rows in (160, 170, 180)}
    for dataset in datasets:
        ask(project, dataset)
    asked: list[str] = []
    for name in ("add_dynamic_partitions", "has_dynamic_partition", "fetch_materializations"):
        real = getattr(dg.DagsterInstance, name)
        monkeypatch.setattr(
            dg.DagsterInstance,
            name,
            lambda *given, name=name, real=real, **more: asked.append(name) or real(*given, **more),
        )
    assert launched(tick(instance, project)) == {*datasets, "tiny.v1"}
    assert asked == ["add_dynamic_partitions"] * 3
    assert set(instance.get_dynamic_partitions("dataset")) == datasets
    assert list(instance.get_dynamic_partitions("recipe")) == ["tiny.v1"]
    assert set(instance.get_dynamic_partitions("pair")) == {f"{dataset}|tiny.v1" for dataset in datasets}
    # Again, while the runs have not been started: nothing is added twice.
    assert launched(tick(instance, project)) == {*datasets, "tiny.v1"}
    assert len(instance.get_dynamic_partitions("dataset")) == 3


def test_runs_that_were_cut_off_are_launched_twice_more_and_those_that_a_user_failed_never(
    project: Project, instance: dg.DagsterInstance
) -> None:
    register_recipe(project.store, project.recipe(), actor="ann")
    away = OperationalError("INSERT", {}, Exception("server closed the connection unexpectedly"))
    unlucky, mistaken = (ask(project, add_version(project, rows)) for rows in (160, 170))
    seen: dict[str, list[str]] = {unlucky.id: [], mistaken.id: []}
    for _ in range(3):
        found = tick(instance, project)
        assert isinstance(found, dg.SensorResult)
        for request in found.run_requests or []:
            asked = request.tags[tags.SUBMISSION]
            if request.job_name == "prepare_dataset":
                seen[asked].append(str(request.run_key))
            fail(instance, request, away if asked == unlucky.id else UserError("a row is wrong"))
    assert isinstance(tick(instance, project), dg.SkipReason)
    first = f"{unlucky.id}:prepare_dataset"
    assert seen[unlucky.id] == [first, f"{first}:again-1", f"{first}:again-2"]
    assert seen[mistaken.id] == [f"{mistaken.id}:prepare_dataset"]
    for submission in (unlucky, mistaken):
        outcome = find_outcome(project.store, submission)
        assert outcome is not None
        assert outcome.status is SubmissionStatus.FAILED


def fail(instance: dg.DagsterInstance, request: dg.RunRequest, error: Exception) -> None:
    """Run what was asked for, as a job that ends in this error."""

    @dg.op
    def ends() -> None:
        raise error

    @dg.job(name=request.job_name)
    def job() -> None:
        ends()

    assert not job.execute_in_process(instance=instance, tags=request.tags, raise_on_error=False).success
