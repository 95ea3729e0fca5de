"""A real webserver and daemon: the UI's actions, backfills, an asset of another code location, and a script that was
written for OpenAI's API.

All use one project and one server, as starting it takes longer than a training.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import httpx
import psutil
import pytest
import yaml

from ft_assets import api
from ft_assets.api import Launch, RunState, Stage, watch_dataset
from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version, latest_version, list_versions
from ft_assets.control.submissions.submit import submit
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.run import _execute
from ft_assets.records.submissions import SubmissionOutcome, SubmissionStatus, all_submissions, find_outcome
from ft_assets.settings import tags
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.tenants import NO_TENANTS, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import MissingInput
from tests.e2e.dagster_server import LONG_S, DagsterServer, dagster_server, wait_for
from tests.e2e.ft_serve import ft_serve
from tests.e2e.project import LONG, Project, make_project

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(3600)]


WAREHOUSE = '''
import json, sqlite3
import dagster as dg

@dg.asset(key=["warehouse", "tickets"])
def tickets():
    """Make a table anew, as a dbt model does."""
    with sqlite3.connect({database!r}) as database:
        database.execute("DROP TABLE IF EXISTS tickets")
        database.execute("CREATE TABLE tickets (question TEXT, answer TEXT)")
        rows = [json.loads(line)["messages"] for line in open({rows!r})]
        database.executemany("INSERT INTO tickets VALUES (?, ?)", [(q["content"], a["content"]) for q, a in rows])

defs = dg.Definitions(assets=[tickets])
'''
TENANTS = """
tenants:
  acme:
    assets: [warehouse/tickets]
    connections:
      warehouse: {kind: sql, url: FT_SOURCE_WAREHOUSE}
    subscriptions:
      - {dataset: tickets, recipe: tiny.v1}
"""
POLICY = """
source:
  asset: warehouse/tickets
  sql: {connection: warehouse, query: "SELECT question AS prompt, answer AS completion FROM tickets ORDER BY rowid"}
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """acme's dataset ``things``, a warehouse whose tickets are watched, and a catalogue of one model."""
    project = make_project(tmp_path_factory.mktemp("served"))
    folder, rows = project.folder, project.dataset()
    add_dataset_version(project.store, rows, tenant="acme", name="things", policy=DatasetPolicy(), actor="ann")
    (folder / "tenants.yaml").write_text(TENANTS)
    (folder / "dataset.yaml").write_text(POLICY)
    (folder / "warehouse.py").write_text(WAREHOUSE.format(database=str(folder / "warehouse.db"), rows=str(rows)))
    (folder / "warehouse.yaml").write_text(
        json.dumps({"load_from": [{"python_file": {"relative_path": "warehouse.py", "location_name": "warehouse"}}]})
    )
    recipe = yaml.safe_load(project.recipe().read_text())
    own = {name: value for name, value in recipe.items() if name not in ("key", "base", "method")}
    models = {"models": {"tiny-1": {"base": "folder:./base", "recipe": own}}}
    (folder / "models.yaml").write_text(yaml.safe_dump(models))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FT_SOURCE_WAREHOUSE", f"sqlite:///{folder}/warehouse.db")
        patch.setenv("FT_TENANTS", str(folder / "tenants.yaml"))
        patch.setenv("FT_STATE", str(folder / "state"))
        patch.setenv("FT_SENSOR_SECONDS", "2")
        patch.delenv("FT_MODELS", raising=False)
        yield project


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[DagsterServer]:
    with dagster_server(project, project.folder / "warehouse.yaml", looks=["sources"]) as server:
        yield server


def ask(server: DagsterServer, recipe: str) -> None:
    config = {"dataset": "acme.things.v1", "recipe": recipe}
    server.launch("fine_tune", {"ops": {"record_submission": {"config": config}}})


def outcome_of(project: Project, pair: str) -> SubmissionOutcome | None:
    """How the pair's one submission ended; None before."""
    found = [each for each in all_submissions(project.store, "acme") if each.pair == pair]
    assert len(found) <= 1, found
    return find_outcome(project.store, found[0]) if found else None


def training_attempt(project: Project, recipe: str) -> Attempt | None:
    """The attempt that is training now, with at least one step done."""
    try:
        request = identity.checkpoint_request(Artifacts(project.store), "acme.things.v1", recipe)
    except MissingInput:
        return None
    attempts = attempts_at(project.store, request.address)
    if attempts and attempts[-1].steps() and attempts[-1].ending() is None:
        return attempts[-1]
    return None


def train_run(server: DagsterServer, recipe: str) -> str:
    for run in server.runs():
        tags = {tag["key"]: tag["value"] for tag in run["tags"]}
        if run["jobName"] == "train_pair" and tags["dagster/partition"].endswith(f"|{recipe}"):
            return str(run["runId"])
    raise AssertionError("no run for the pair")


def test_runs_of_the_command_line_are_in_the_timeline_and_in_the_list_of_their_job(
    project: Project, server: DagsterServer
) -> None:
    """The timeline passes over runs without a code location, and a job's list over those of another one."""
    submission, _ = submit(
        project.store,
        NO_TENANTS,
        dataset="acme.things.v1",
        recipe=register_recipe(project.store, project.recipe("seen.v1"), actor="ann").key,
        actor="ann",
        origin="cli",
        driver="caller",
        idempotency_key="seen",
    )
    instance, launch = project.instance(), Launch(submission=submission, stage=Stage.PREPARE_DATASET)
    list_keys(instance, dataset=submission.dataset, recipe=submission.recipe)
    assert _execute(project.store, instance, launch, NO_TENANTS) is RunState.SUCCEEDED
    (run,) = instance.get_runs(dg.RunsFilter(tags={tags.SUBMISSION: submission.id}))
    assert (run.run_id, {"repositoryName": "__repository__", "repositoryLocationName": "fine-tuning"}) in [
        (each["id"], each["repositoryOrigin"]) for each in server.timeline()
    ]
    assert run.run_id in server.runs_of(Stage.PREPARE_DATASET)


def test_cancel_in_the_ui_stops_the_work(project: Project, server: DagsterServer) -> None:
    register_recipe(project.store, project.recipe("long.v1", steps=100_000), actor="ann")
    ask(server, "long.v1")
    attempt = wait_for(lambda: training_attempt(project, "long.v1"), LONG_S, "the training")
    pid = attempt.launch()["pid"]
    server.terminate(train_run(server, "long.v1"))
    wait_for(lambda: not psutil.pid_exists(pid), LONG_S, "the worker's end")
    outcome = wait_for(lambda: outcome_of(project, "acme.things.v1|long.v1"), LONG_S, "the end of the submission")
    assert outcome.status is SubmissionStatus.CANCELLED


def test_one_action_in_the_ui_ends_in_an_adapter_although_its_run_worker_is_killed_as_the_next_attaches_to_the_work(
    project: Project, server: DagsterServer
) -> None:
    register_recipe(project.store, project.recipe("hardy.v1", steps=LONG * 5), actor="ann")
    ask(server, "hardy.v1")
    attempt = wait_for(lambda: training_attempt(project, "hardy.v1"), LONG_S, "the training")
    pid = attempt.launch()["pid"]
    # The process that started the worker is the one that executes the Dagster run.
    os.kill(psutil.Process(pid).ppid(), signal.SIGKILL)
    assert psutil.pid_exists(pid)
    outcome = wait_for(lambda: outcome_of(project, "acme.things.v1|hardy.v1"), LONG_S, "the end of the submission")
    assert outcome.status is SubmissionStatus.ACCEPTED, outcome.reason
    assert len(attempts_at(project.store, attempt.address)) == 1


def test_a_materialized_upstream_asset_ends_as_an_adapter(project: Project, server: DagsterServer) -> None:
    store = project.store
    register_recipe(store, project.recipe(), actor="ann")
    watch_dataset("acme.tickets", project.folder / "dataset.yaml", store=store, tenants=load_tenants(), actor="ann")
    before = server.partition_counts("raw_dataset")["materialized"]
    assert (server.parents("raw_dataset"), server.parents("source")) == ([["source"]], [["warehouse", "tickets"]])
    run = server.materialize(["warehouse", "tickets"], "warehouse")
    key = wait_for(lambda: latest_version(store, "acme", "tickets"), LONG_S, "a version of the rows")
    outcome = wait_for(lambda: outcome_of(project, f"{key}|tiny.v1"), LONG_S, "the end of its training")
    assert (str(key), outcome.status) == ("acme.tickets.v1", SubmissionStatus.ACCEPTED), outcome.reason
    raw = identity.raw_dataset(Artifacts(store), str(key))
    # The lineage goes on where Dagster cannot: which run of the warehouse these rows are from.
    assert f"by run {run[:8]}" in raw.facts["source"]
    assert server.partition_counts("raw_dataset")["materialized"] == before + 1
    # What the warehouse makes next is a version of its own, and leaves this one as true as it was.
    server.materialize(["warehouse", "tickets"], "warehouse")
    wait_for(lambda: len(store.names("acme/pulls/tickets")) == 2, LONG_S, "a second pull")
    assert server.stale_statuses("raw_dataset", [str(key)]) == ["FRESH"]
    assert [str(each) for each in list_versions(store, "acme", "tickets")] == [str(key)]


# What else is answered: server/test_specified_jobs.py.
@pytest.mark.long
def test_a_job_that_was_cancelled_in_its_training_is_resumed_and_goes_on_from_its_last_save(
    project: Project, server: DagsterServer
) -> None:
    _, key = api.create_key("acme", name="script", actor="root")
    with ft_serve(project) as url, httpx.Client(base_url=f"{url}/v1", trust_env=False) as http:
        http.headers["authorization"] = f"Bearer {key}"
        with project.dataset().open("rb") as rows:
            file = http.post("/files", files={"file": rows}, data={"purpose": "fine-tune"}).json()["id"]
        body = {"base_model": "tiny-1", "training_file": file, "hyperparameters": {"n_epochs": 20}}
        at = f"/fine-tuning/jobs/{http.post('/fine-tuning/jobs', json=body).json()['job_id']}"

        def look(*statuses: str) -> dict[str, Any] | None:
            found: dict[str, Any] = http.get(at).json()
            return found if found["status"] in statuses and found["checkpoint_path"] else None

        wait_for(lambda: look("running"), LONG_S, "a save of the training")
        assert http.post(f"{at}/cancel").json()["status"] == "cancelled"
        assert http.post(f"{at}/resume").json()["status"] == "queued"
        # The candidate of so many epochs may be accepted or not.
        done = wait_for(lambda: look("succeeded", "failed"), LONG_S, "the end of the job")
        recipe = http.get(at.replace("-", "_", 1)).json()["ft"]["recipe"]
    checkpoint = identity.checkpoint(Artifacts(project.store), done["training_file_version"], recipe)
    (resumed,) = checkpoint.facts["resumed"]
    assert 0 < resumed["step"] < done["step"]
    assert done["checkpoint_path"] == project.store.url_of(checkpoint.address.path)


# What its client is answered: server/test_openai_client.py.
@pytest.mark.long
def test_a_script_for_openai_s_api_gets_its_model_here(project: Project, server: DagsterServer) -> None:
    _, key = api.create_key("acme", name="script", actor="root")
    script = [sys.executable, str(Path(__file__).parent / "openai_script.py"), str(project.dataset()), "tiny-1"]
    with ft_serve(project) as url:
        place = {"OPENAI_BASE_URL": f"{url}/v1", "OPENAI_API_KEY": key}
        done = subprocess.run(script, env={**project.environment, **place}, capture_output=True, text=True)
    said = done.stdout.splitlines()
    assert done.returncode == 0, (done.stdout, done.stderr)
    assert said[0] == "cancelled: cancelled"
    assert "status: succeeded " in said
    model = said[-1].removeprefix("model: ")
    assert model.startswith("ft:tiny-1:acme:colours:")
    assert f"event: New fine-tuned model created: {model}" in said
    steps = sum(line.startswith("event: Step ") for line in said)
    assert "event: Training" in said
    assert any(line.startswith(f"checkpoint: {steps} ") for line in said)
    assert [line.split()[1] for line in said if line.startswith("result: ")] == ["step_metrics.csv", "report.html"]
    assert int(next(line for line in said if line.startswith("tokens: ")).split()[1]) > 0
