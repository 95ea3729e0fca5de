import dagster as dg
import pytest
from sqlalchemy.exc import OperationalError

from ft_assets.records.submissions import SubmissionStatus, find_outcome
from ft_assets.settings import tags
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_sensors import submissions
from tests.e2e.project import Project
from tests.made import submitted
from tests.sensors.conftest import add_version, drive, register, sentence, started

pytestmark = pytest.mark.dagster


def launched(found: dg.SensorResult | dg.SkipReason) -> set[str]:
    return {str(request.partition_key) for request in found.run_requests or []}


def test_one_broken_record_keeps_nobody_else_waiting(project: Project, instance) -> None:
    """A corrupt manifest or submission used to end every tick, and with it everybody's submissions."""
    register(project)
    broken, good, unreadable = (add_version(project, rows) for rows in (160, 170, 180))
    failed, _, garbled = (
        submitted(project.store, broken),
        submitted(project.store, good),
        submitted(project.store, unreadable),
    )
    pointer = project.store.get_json(f"names/dataset/{broken}.json")
    project.store.put(f"{pointer['address']}/manifest.json", b"{}")
    project.store.put(garbled.path, b'{"id": 3}')
    assert launched(drive(project, instance)) == {good, "tiny.v1"}
    outcome = find_outcome(project.store, failed)
    assert outcome.status is SubmissionStatus.FAILED
    assert "manifest" in outcome.reason


def test_a_full_batch_goes_on_where_it_ended_without_reading_what_came_before(project, instance, monkeypatch) -> None:
    register(project)
    dataset = add_version(project)
    asked = sorted(
        (submitted(project.store, dataset, key=f"ask-{number}") for number in range(3)), key=lambda each: each.marker
    )
    monkeypatch.setattr(submissions, "_BATCH", 2)
    first = drive(project, instance)
    assert first.cursor == asked[1].marker
    read: list[str] = []
    get = Store.get
    monkeypatch.setattr(Store, "get", lambda self, path: read.append(path) or get(self, path))
    second = drive(project, instance, cursor=first.cursor)
    assert second.cursor == ""
    assert [path for path in read if "/submissions/" in path and "outcome" not in path] == [asked[2].path]


def test_a_tenant_at_its_limit_of_trainings_waits_and_others_do_not(project: Project, instance, monkeypatch) -> None:
    from ft_assets.control.submissions.plan import Present, Stage, Wanted

    (project.folder / "tenants.yaml").write_text("tenants: {acme: {quota: {concurrent: 2}}}\n")
    register(project)
    datasets = [add_version(project, rows) for rows in (160, 170, 180)]
    for dataset in datasets:
        submitted(project.store, dataset)
    ready = Present(done=frozenset({Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE}))
    monkeypatch.setattr(submissions, "as_wanted", lambda *given: Wanted(submission=given[2], present=ready, runs={}))
    assert len(launched(drive(project, instance))) == 2
    run = instance.create_run_for_job(_some_job(), tags={tags.TENANT: "acme", tags.TRAINS: "true"})
    assert len(launched(drive(project, instance))) == 1
    instance.report_run_failed(run)
    assert len(launched(drive(project, instance))) == 2


def _some_job() -> dg.JobDefinition:
    @dg.op
    def nothing() -> None:
        pass

    @dg.job
    def some_training() -> None:
        nothing()

    return some_training


def test_a_submission_whose_runs_are_under_way_costs_no_look_at_what_it_made(project, instance, monkeypatch) -> None:
    register(project)
    asked = submitted(project.store, add_version(project))
    first = drive(project, instance)
    runs = started(instance, first)
    monkeypatch.setattr("ft_assets.api.orchestration.present", lambda *_, **__: pytest.fail("it was looked at"))
    assert "1 wait, 0 ended" in sentence(drive(project, instance))
    monkeypatch.undo()
    # One of the two is enough to look again.
    instance.report_run_canceled(runs[0])
    drive(project, instance)
    outcome = find_outcome(project.store, asked)
    assert outcome.status is SubmissionStatus.CANCELLED


def test_launching_many_costs_one_query_for_each_list_and_none_about_what_is_not_there(
    project: Project, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Asking for every launch and every stage was nearly all that a tick after a new version took."""
    register(project)
    datasets = {add_version(project, rows) for rows in (160, 170, 180)}
    for dataset in datasets:
        submitted(project.store, dataset)
    asked: list[str] = []
    for name in ("add_dynamic_partitions", "has_dynamic_partition", "fetch_materializations"):
        real = getattr(dg.DagsterInstance, name)
        monkeypatch.setattr(
            dg.DagsterInstance,
            name,
            lambda *given, name=name, real=real, **more: asked.append(name) or real(*given, **more),
        )
    assert launched(drive(project, instance)) == {*datasets, "tiny.v1"}
    assert asked == ["add_dynamic_partitions"] * 2
    assert set(instance.get_dynamic_partitions("dataset")) == datasets
    assert list(instance.get_dynamic_partitions("recipe")) == ["tiny.v1"]
    # Again, while the runs have not been started: nothing is added twice.
    assert launched(drive(project, instance)) == {*datasets, "tiny.v1"}
    assert len(instance.get_dynamic_partitions("dataset")) == 3


def test_runs_that_were_cut_off_are_launched_twice_more_and_those_that_a_user_failed_never(project, instance) -> None:
    register(project)
    away = OperationalError("INSERT", {}, Exception("server closed the connection unexpectedly"))
    unlucky, mistaken = (submitted(project.store, add_version(project, rows)) for rows in (160, 170))
    seen: dict[str, list[str]] = {unlucky.id: [], mistaken.id: []}
    for _ in range(3):
        found = drive(project, instance)
        assert isinstance(found, dg.SensorResult)
        for request in found.run_requests or []:
            asked = request.tags[tags.SUBMISSION]
            if request.job_name == "prepare_dataset":
                seen[asked].append(str(request.run_key))
            fail(instance, request, away if asked == unlucky.id else UserError("a row is wrong"))
    assert isinstance(drive(project, instance), dg.SkipReason)
    first = f"{unlucky.id}:prepare_dataset"
    assert seen[unlucky.id] == [first, f"{first}:again-1", f"{first}:again-2"]
    assert seen[mistaken.id] == [f"{mistaken.id}:prepare_dataset"]
    for submission in (unlucky, mistaken):
        outcome = find_outcome(project.store, submission)
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
