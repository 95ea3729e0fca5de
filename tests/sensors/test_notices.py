"""Failed runs, notices and rollouts on a real instance: they go on by themselves, and old outcomes go."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
import yaml
from typer.testing import CliRunner

from ft_assets import api
from ft_assets.cli.main import app
from ft_assets.control.lines.lines import read_line
from ft_assets.control.lines.promotion import promote
from ft_assets.control.notices.runs import Seen, plan_failures
from ft_assets.control.rollouts.asked import Wish, start
from ft_assets.control.rollouts.rollouts import RolloutRecord, read_rollouts
from ft_assets.definitions import build_definitions
from ft_assets.graph.failed_runs import failure_of_submission
from ft_assets.graph.listed_keys import list_keys
from ft_assets.records.outcomes import KEPT_DAYS, read_outcomes
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.settings import tags
from ft_resources.artifacts import Artifact, Artifacts
from ft_sensors.notices import notices_sensor
from ft_sensors.rollouts import rollouts_sensor
from ft_sensors.run_failures import run_failures_sensor
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE, SERVED, decided
from tests.control.notices.servers import Hook, webhook
from tests.control.rollouts.made import leave_outcomes, outcome, traffic
from tests.e2e.project import Project
from tests.made import submitted
from tests.sensors.conftest import add_version, register, say

pytestmark = pytest.mark.dagster

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def hook(project: Project, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("FT_NOTIFY_HOSTS", "127.0.0.1")
    monkeypatch.setenv("FT_WEBHOOK_ACME", "a key of thirty-two characters..")
    with webhook() as found:
        section = f"{{webhook: {{url: '{found.url}', secret_env: FT_WEBHOOK_ACME}}}}"
        (project.folder / "tenants.yaml").write_text(f"tenants: {{acme: {{notify: {section}}}}}\n")
        yield found


def told(hook: Hook) -> list[dict]:
    return [json.loads(body) for _, body in hook.got]


def run(project: Project, instance: dg.DagsterInstance, job: str, partition: str, **run_tags: str) -> str:
    definitions = build_definitions(project.store_url)
    result = definitions.resolve_job_def(job).execute_in_process(
        instance=instance, partition_key=partition, raise_on_error=False, tags=run_tags
    )
    assert not result.success
    return result.run_id


def test_a_run_from_the_ui_that_fails_is_classified_and_told_once(project, instance, hook) -> None:
    dataset = add_version(project)
    list_keys(instance, dataset=dataset)
    pointer = project.store.get_json(f"names/dataset/{dataset}.json")
    project.store.put(f"{pointer['address']}/manifest.json", b"{}")
    run_id = run(project, instance, "prepare_dataset", dataset)
    for _ in range(2):
        # No cursor: as after a restart that lost it.
        assert "checked 1 failed runs" in say(project, instance, run_failures_sensor)
    assert "1 sent" in say(project, instance, notices_sensor)
    assert say(project, instance, notices_sensor) == "checked 1 events: nothing to send"
    assert say(project, instance, notices_sensor) == "checked 0 events: nothing to send"
    (event,) = told(hook)
    assert event["kind"] == "run_failed"
    assert event["facts"]["asset"] == "raw_dataset"
    assert event["facts"]["run"] == run_id
    assert event["blame"] == "platform"
    assert "the manifest cannot be read" in event["details"][0]
    assert event["remedy"].startswith("Restore the object")


def test_a_run_of_a_submission_is_told_with_its_end_and_not_twice(project, instance, hook) -> None:
    register(project)
    dataset = add_version(project)
    list_keys(instance, dataset=dataset, recipe="tiny.v1")
    asked = submitted(project.store, dataset, "tiny.v1", key="k")
    # Nothing is prepared, so the pair's first asset fails before any worker was started.
    launched = {tags.SUBMISSION: asked.id, tags.TENANT: "acme"}
    run(project, instance, "train_pair", asked.pair, **launched)
    assert "0 to report" in say(project, instance, run_failures_sensor)
    failure = failure_of_submission(instance, project.store, asked)
    finish(project.store, asked, SubmissionStatus.FAILED, failure=failure)
    assert "0 to report" in say(project, instance, run_failures_sensor)
    say(project, instance, notices_sensor)
    (event,) = told(hook)
    assert (event["kind"], event["subject"]) == ("failed", asked.id)
    assert event["facts"]["asset"] == "token_pack"
    assert event["blame"] == "user"
    assert any("has not been materialized" in text for text in event["details"])
    # What somebody launches again after that is told of by itself.
    run(project, instance, "train_pair", asked.pair, **launched)
    assert "1 to report" in say(project, instance, run_failures_sensor)
    say(project, instance, notices_sensor)
    assert [each["kind"] for each in told(hook)] == ["failed", "run_failed"]


@pytest.mark.parametrize(
    ("partition", "claimed", "told_of"),
    [
        ("acme.things.v1", {}, [("run_failed", "acme", "platform", None)]),
        # A forged tenant tag does not send a notice to somebody else.
        ("other.things.v1", {tags.TENANT: "acme"}, []),
    ],
)
def test_a_run_that_no_code_could_be_loaded_for_is_told_as_the_platforms_to_whom_its_partition_names(
    project, instance, hook, partition, claimed, told_of
) -> None:
    made = instance.create_run_for_job(
        build_definitions(project.store_url).resolve_job_def("prepare_dataset"),
        tags={"dagster/partition": partition, "dagster/max_retries": "0", **claimed},
    )
    instance.report_run_failed(made, "the code location could not be loaded")
    say(project, instance, run_failures_sensor)
    say(project, instance, notices_sensor)
    assert [(each["kind"], each["tenant"], each["blame"], each["facts"].get("asset")) for each in told(hook)] == told_of


def seen(at_s: float, retried: bool | None, of_submission: bool = False) -> Seen:
    failed_at = NOW - timedelta(seconds=at_s)
    return Seen(run_id=f"{at_s}", failed_at=failed_at, retried=retried, of_submission=of_submission)


def test_a_run_that_dagster_may_still_retry_is_waited_for() -> None:
    runs = [seen(900, None), seen(60, False), seen(50, True), seen(40, None), seen(30, False), seen(20, False, True)]
    told_of, again = plan_failures(runs, NOW)
    assert told_of == ["900", "60", "30"]
    assert again == NOW - timedelta(seconds=40)


def test_what_was_told_is_shown(project, instance, hook, monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("FT_STORE", project.store_url)
    monkeypatch.chdir(project.folder)
    hook.answers = [500]
    register(project)
    dataset = add_version(project)
    asked = submitted(project.store, dataset, "tiny.v1", key="k")
    finish(project.store, asked, SubmissionStatus.CANCELLED, reason="enough")
    say(project, instance, notices_sensor)
    (shown,) = json.loads(CliRunner().invoke(app, ["notices", "acme", "--json"]).stdout)
    assert shown["event"]["kind"] == "cancelled"
    assert shown["channels"] == {"tenant-webhook": "1 tries: it answered 500"}
    said = CliRunner().invoke(app, ["notices", "acme"])
    assert "cancelled" in said.stdout
    assert "1 events are queued for sending" in said.stderr


def test_a_tenants_file_that_means_nothing_sends_nothing_and_is_named(project, instance) -> None:
    (project.folder / "tenants.yaml").write_text("tenants:\n  acme:\n    notfy: {}\n")
    assert "did you mean 'notify'?" in say(project, instance, notices_sensor)


TODAY = datetime.now(UTC)
HOUR = timedelta(hours=1)


def begin(project: Project, adapters: list[Artifact]) -> RolloutRecord:
    artifacts, margins = Artifacts(project.store), {"thumbs": 0.2}
    promote(artifacts, str(adapters[0].address), "production", decided())
    wish = Wish(candidate=str(adapters[1].address), steps=(5, 100), minimum=50, outcomes=("thumbs",), margins=margins)
    return start(artifacts, LINE, wish, decided(), now=TODAY - HOUR)


@pytest.fixture
def started(project: Project, adapters: list[Artifact]) -> RolloutRecord:
    """A rollout that began an hour ago, one step before production."""
    return begin(project, adapters)


def tick(project: Project) -> str:
    with dg.DagsterInstance.ephemeral() as instance:
        return say(project, instance, rollouts_sensor)


def serve(project: Project, started: RolloutRecord, good: tuple[float, float]) -> None:
    seen = traffic(started.candidate, started.incumbent, good=good, n=300, begin=TODAY - HOUR)
    leave_outcomes(project.store, seen)


def test_a_good_candidate_goes_to_production(project: Project, adapters: list[Artifact]) -> None:
    assert tick(project) == "checked 0 open rollouts: 0 changes"
    begun = begin(project, adapters)
    assert tick(project) == "checked 1 open rollouts: 0 changes"
    serve(project, begun, (0.9, 0.9))
    assert tick(project) == "checked 1 open rollouts: 1 changes"
    assert read_line(project.store, LINE).at("production").adapter == begun.candidate
    assert tick(project) == "checked 0 open rollouts: 0 changes"


def test_what_comes_to_staging_begins_by_itself_where_the_line_says_so(project, adapters) -> None:
    path = project.folder / "tenants.yaml"
    rollouts = {"automatic": True, "steps": [5, 100], "outcomes": ["thumbs"]}
    tenant, _, name = LINE.partition(".")
    file = {**SERVED.model_dump(mode="json", include={"served_bases"})}
    path.write_text(yaml.safe_dump({**file, "tenants": {tenant: {"lines": {name: {"rollouts": rollouts}}}}}))
    artifacts = Artifacts(project.store)
    promote(artifacts, str(adapters[0].address), "production", decided())
    assert tick(project) == "checked 0 open rollouts: 0 changes"
    promote(artifacts, str(adapters[1].address), "staging", decided())
    assert tick(project) == "checked 1 open rollouts: 1 changes"
    assert read_rollouts(project.store, LINE).open.started.candidate == adapters[1].ref


def test_a_line_that_cannot_be_read_holds_up_no_other(project: Project, started: RolloutRecord) -> None:
    serve(project, started, (0.9, 0.9))
    project.store.create("acme/rollouts/acme.things.other/000001.json", b"{}")
    assert tick(project) == "checked 1 open rollouts: 1 changes"


def test_old_outcomes_go_once_a_day_but_not_those_of_an_open_rollout(project: Project, started: RolloutRecord) -> None:
    days = [TODAY - timedelta(days=KEPT_DAYS + 2), TODAY - timedelta(days=KEPT_DAYS - 2)]
    leave_outcomes(project.store, [outcome(started.incumbent, 1.0, day) for day in days])
    copied = [f"acme/shadows/{LINE}/{day.date()}" for day in days]
    for folder in copied:
        project.store.create(f"{folder}/0000-one-1.jsonl", b"")

    def step(after: str) -> str:
        return api.advance_rollouts(after=after, store=project.store, tenants=SERVED).after

    def kept() -> int:
        return sum(each.kind == "thumbs" for each in read_outcomes(project.store, LINE, "2000", "3000"))

    today = step("")
    assert kept() == 1
    assert [len(project.store.names(folder)) for folder in copied] == [0, 1]
    leave_outcomes(project.store, [outcome(started.incumbent, 1.0, days[0])], server="late")
    assert step(today) == today
    assert kept() == 2
    # As if the rollout had begun before the older one.
    began = started.model_copy(update={"at": (days[0] - HOUR).isoformat(), "seal": ""})
    project.store.put(started.path, began.data())
    step("")
    assert kept() == 2


def test_rollouts_that_cannot_be_read_keep_the_outcomes_of_their_own_line_and_no_others(project, started) -> None:
    """Whatever came after such a line was kept for ever, and the cleaning began anew every minute."""
    old = TODAY - timedelta(days=KEPT_DAYS + 2)
    leave_outcomes(project.store, [outcome(started.incumbent, 1.0, old)])
    project.store.create("acme/rollouts/acme.alone.first/000001.json", b"{}")
    folder = f"acme/outcomes/acme.alone.first/{old.date()}"
    project.store.create(f"{folder}/0000-one-1.jsonl", b"")
    found = api.advance_rollouts(store=project.store, tenants=SERVED)
    assert found.after
    assert not list(read_outcomes(project.store, LINE, "2000", "3000"))
    assert project.store.names(folder)
    assert any(each.startswith("acme.alone.first: its old outcomes stay: ") for each in found.warnings)
