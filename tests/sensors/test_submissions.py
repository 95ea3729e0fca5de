"""Submissions on a real instance: cut off, held for a review of their dataset or paused; they go on by themselves."""

import dagster as dg
import pytest
from sqlalchemy.exc import OperationalError

from ft_assets import api
from ft_assets.control import identity
from ft_assets.control.identity.review import approve
from ft_assets.control.submissions.plan import Stage
from ft_assets.control.submissions.status import State, status_of
from ft_assets.definitions import build_definitions
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.orchestrator import Dagster
from ft_assets.records.submissions import Submission, SubmissionStatus, find_outcome, open_submissions
from ft_assets.settings import tags
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import HeldForReview, SubmissionPaused, UserError
from ft_resources.run_states import ACTIVE_STATUSES
from ft_resources.store import Store
from ft_sensors import submissions
from tests.curated import LEAK, leave_dataset
from tests.e2e.project import Project
from tests.made import leave, submitted
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


RECIPE = "tiny.v1"


@pytest.fixture
def asked(project: Project, instance: dg.DagsterInstance) -> Submission:
    """Of a dataset and a recipe that are not prepared."""
    register(project)
    dataset = add_version(project)
    list_keys(instance, dataset=dataset, recipe=RECIPE)
    return submitted(project.store, dataset)


def tick(instance: dg.DagsterInstance, project: Project) -> dict[str, str]:
    """What the sensor launches: partitions by job."""
    requests = getattr(drive(project, instance), "run_requests", None) or []
    return {str(request.job_name): str(request.partition_key) for request in requests}


def run(
    instance: dg.DagsterInstance, project: Project, stage: Stage, partition: str, submission: str = "", *assets: str
) -> dg.ExecuteInProcessResult:
    """A run of its own, for the submission or, without one, as somebody launches it from the UI."""
    job = build_definitions(project.store_url).resolve_job_def(stage)
    return job.execute_in_process(
        instance=instance,
        partition_key=partition,
        raise_on_error=False,
        tags={tags.SUBMISSION: submission, tags.TENANT: "acme"} if submission else {},
        asset_selection=[dg.AssetKey(asset) for asset in assets] or None,
    )


def refusal_of(result: dg.ExecuteInProcessResult) -> str:
    """The name of the error that a run's one failed step ended with, without a stack; and its words."""
    (failure,) = (event.step_failure_data for event in result.all_events if event.is_step_failure)
    assert failure.error.stack == []
    return f"{failure.error.cls_name}: {failure.error.message}"


def prepare_base(artifacts: Artifacts) -> None:
    facts = {"tokenizer_digest": "00", "template_digest": "11", "parameters": 1, "architecture": "tiny", "bytes": 1}
    about = {"source": "folder", "revision": "", "chat_template": True}
    leave(artifacts, identity.base_model_request(artifacts, RECIPE), {"config.json": b"{}"}, facts | about)
    leave(artifacts, identity.baseline_report_request(artifacts, RECIPE), {"report.json": b"{}"}, {"scores": {}})


def test_a_held_submission_waits_with_the_reasons_and_goes_on_by_itself_after_approval(
    project, instance, asked
) -> None:
    artifacts = Artifacts(project.store)
    assert tick(instance, project) == {"prepare_dataset": asked.dataset, "prepare_recipe": RECIPE}
    leave_dataset(artifacts, asked.dataset, [LEAK])
    prepare_base(artifacts)
    # The run's page says what a person can do.
    held = run(instance, project, Stage.PREPARE_DATASET, asked.dataset, asked.id)
    assert f"HeldForReview: dataset {asked.dataset}: {asked.dataset} is held for review: {LEAK}" in refusal_of(held)
    assert instance.get_run_by_id(held.run_id).tags[tags.VERDICT] == "held"
    (check,) = held.get_asset_check_evaluations()
    said = f"held: {LEAK} To continue: ft dataset approve {asked.dataset} --note TEXT"
    assert (check.passed, check.description) == (False, said)
    assert run(instance, project, Stage.PREPARE_RECIPE, RECIPE, asked.id).success

    assert "1 wait (1 for a review of their dataset), 0 ended" in sentence(drive(project, instance))
    assert find_outcome(project.store, asked) is None
    status = status_of(project.store, asked)
    assert (status.state, LEAK in status.detail) == (State.HELD, True)
    assert f"ft dataset approve {asked.dataset}" in status.remedy

    approve(artifacts, asked.dataset, actor="ann", note="the tests are public")
    assert status_of(project.store, asked).state is not State.HELD
    assert tick(instance, project) == {"train_pair": asked.pair}
    assert [each.id for each in open_submissions(project.store)] == [asked.id]


def test_nothing_is_launched_for_a_version_that_was_held_before_it_was_asked_for(project, instance, asked) -> None:
    artifacts = Artifacts(project.store)
    leave_dataset(artifacts, asked.dataset, [LEAK])
    assert tick(instance, project) == {}
    assert status_of(project.store, asked).state is State.HELD
    approve(artifacts, asked.dataset, actor="ann", note="fine")
    # Cached, but the UI should show it.
    assert tick(instance, project) == {"prepare_dataset": asked.dataset, "prepare_recipe": RECIPE}


def test_no_separate_run_makes_anything_of_a_held_version(project, instance, asked) -> None:
    """Dagster itself lets a separate run of the downstream asset through after a failed check."""
    artifacts = Artifacts(project.store)
    leave_dataset(artifacts, asked.dataset, [LEAK])
    prepare_base(artifacts)
    for asset, request in identity.pair_requests().items():
        result = run(instance, project, Stage.TRAIN_PAIR, asked.pair, "", asset)
        assert refusal_of(result).startswith(HeldForReview.__name__), asset
        with pytest.raises(HeldForReview):
            request(artifacts, asked.dataset, RECIPE)

    approve(artifacts, asked.dataset, actor="ann", note="the tests are public")
    pack = identity.token_pack_request(artifacts, asked.dataset, RECIPE)
    assert attempts_at(project.store, pack.address) == []
    counts = {"windows": 4, "max_length": 128, "examples": 9, "tokens": 400, "learned_tokens": 200, "dropped": 0}
    lengths = {"validation": {"examples": 1, "tokens": 10}, "length_histogram": {"edges": [1, 2], "counts": [9]}}
    leave(artifacts, pack, {"train.npy": b"0", "report/samples.html": b"<p>"}, counts | lengths)
    result = run(instance, project, Stage.TRAIN_PAIR, asked.pair, "", "token_pack")
    made = [event.materialization.asset_key.to_user_string() for event in result.get_asset_materialization_events()]
    assert made == ["token_pack"]


class Ends(Dagster):
    """Ends runs that have no process."""

    def end_runs(self, submission: Submission) -> int:
        found = self.instance.get_runs(dg.RunsFilter(tags={tags.SUBMISSION: submission.id}, statuses=ACTIVE_STATUSES))
        for run in found:
            self.instance.report_run_canceled(run)
        return len(found)


def test_a_paused_submission_launches_nothing_stays_open_and_goes_on_in_runs_of_its_own(
    project, instance, asked
) -> None:
    before = started(instance, drive(project, instance))
    assert len(before) == 2
    paused = api.pause(asked.id, reason="lunch", store=project.store, actor="bob", orchestrator=Ends(instance))
    assert (paused.created, paused.runs, paused.workers) == (True, 2, ())
    for _ in range(2):
        assert "1 wait (1 paused), 0 ended" in sentence(drive(project, instance))
    assert find_outcome(project.store, asked) is None
    assert status_of(project.store, asked).state is State.PAUSED

    api.resume(asked.id, store=project.store, actor="ann")
    assert status_of(project.store, asked).state is State.QUEUED
    after = started(instance, drive(project, instance))
    assert [run.job_name for run in after] == [run.job_name for run in before]
    # Dagster launches a run of a key once.
    assert not {run.tags["key"] for run in after} & {run.tags["key"] for run in before}
    assert {run.tags[tags.RESUMED] for run in after} == {"1"}
    # One that is cancelled by hand after that is cancelled.
    instance.report_run_canceled(after[0])
    drive(project, instance)
    assert find_outcome(project.store, asked).reason == f"{after[0].job_name} was cancelled"


def test_a_run_that_was_launched_just_before_the_pause_makes_nothing_and_says_why(project, instance, asked) -> None:
    """The sensor had looked before the record was there, and the pause had no run to end."""
    api.pause(asked.id, reason="lunch", store=project.store, actor="bob", orchestrator=Ends(instance))
    said = refusal_of(run(instance, project, Stage.PREPARE_DATASET, asked.dataset, asked.id))
    assert said.startswith(SubmissionPaused.__name__)
    assert "paused by bob: lunch" in said
    assert attempts_at(project.store, identity.dataset_request(Artifacts(project.store), asked.dataset).address) == []
    # That failure is not the submission's, now or once it is resumed.
    assert isinstance(drive(project, instance), dg.SkipReason)
    api.resume(asked.id, store=project.store, actor="ann")
    assert len(started(instance, drive(project, instance))) == 2
    assert find_outcome(project.store, asked) is None
