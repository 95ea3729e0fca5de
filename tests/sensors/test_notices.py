"""Failed runs and notices on a real instance."""

import json
from datetime import UTC, datetime, timedelta

import dagster as dg
import pytest
from typer.testing import CliRunner

from ft_assets.cli.main import app
from ft_assets.control.notices.runs import Seen, plan_failures
from ft_assets.definitions import build_definitions
from ft_assets.graph.failed_runs import failure_of_submission
from ft_assets.graph.listed_keys import list_keys
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_assets.settings import tags
from ft_sensors.notices import notices_sensor
from ft_sensors.run_failures import run_failures_sensor
from tests.control.notices.servers import Hook, webhook
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
