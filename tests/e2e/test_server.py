"""The UI's way: one action records a submission, the daemon's sensor does the rest; cancel stops the work; backfills.

All use one project and one server, as starting it takes longer than a training.
"""

import os
import signal
from collections.abc import Iterator

import dagster as dg
import psutil
import pytest

from ft_assets.api import Launch, RunState, Stage
from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.control.submissions.submit import submit
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.run import _execute
from ft_assets.records.submissions import SubmissionStatus, all_submissions, find_outcome
from ft_assets.settings import tags
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.tenants import NO_TENANTS
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import MissingInput
from tests.e2e.dagster_server import DagsterServer, dagster_server, wait_for
from tests.e2e.project import LONG, Project, make_project
from tests.fake_base import make_fake_base

pytestmark = pytest.mark.e2e

RECIPES = {"first.v1": 4, "second.v1": 2}
PAIRS = {f"acme.boxes.v1|{recipe}" for recipe in RECIPES}
# Of a machine that does other things too; nothing here is about speed.
LONG_S = 600


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make_project(tmp_path_factory.mktemp("served"))
    add_dataset_version(
        project.store, project.dataset(), tenant="acme", name="things", policy=DatasetPolicy(), actor="ann"
    )
    return project


@pytest.fixture(scope="module")
def server(project: Project) -> Iterator[DagsterServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FT_SENSOR_SECONDS", "2")
        with dagster_server(project) as server:
            yield server


def ask(server: DagsterServer, recipe: str) -> None:
    config = {"dataset": "acme.things.v1", "recipe": recipe}
    server.launch("fine_tune", {"ops": {"record_submission": {"config": config}}})


def outcome_of(project: Project, recipe: str):
    submissions = [s for s in all_submissions(project.store, "acme") if s.recipe == recipe]
    return find_outcome(project.store, submissions[0]) if submissions else None


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
    outcome = wait_for(lambda: outcome_of(project, "long.v1"), LONG_S, "the end of the submission")
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
    outcome = wait_for(lambda: outcome_of(project, "hardy.v1"), LONG_S, "the end of the submission")
    assert outcome.status is SubmissionStatus.ACCEPTED, outcome.reason
    assert len(attempts_at(project.store, attempt.address)) == 1


def ended(server: DagsterServer, backfill: str) -> str:
    over = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "COMPLETED", "FAILED", "CANCELED")
    return wait_for(lambda: status if (status := server.backfill_status(backfill)) in over else "", LONG_S, "the end")


def test_two_pairs_from_upload_to_adapter_by_backfills_of_the_ui(project: Project, server: DagsterServer) -> None:
    """Dagster takes assets of one partitioning into a backfill, so the graph is three: datasets, recipes, pairs."""
    store = project.store
    kinds = {("shared", "baseline_report"): 1, ("acme", "checkpoint"): 2, ("acme", "dataset"): 1}
    before = {kind: set(store.folders("/".join(kind))) for kind in kinds}
    rows = project.dataset(120, "boxes.jsonl")
    add_dataset_version(store, rows, tenant="acme", name="boxes", policy=DatasetPolicy(), actor="ann")
    make_fake_base(project.folder / "another", seed=1)
    server.add_partition("dataset", "acme.boxes.v1")
    for recipe, rank in RECIPES.items():
        register_recipe(store, project.recipe(recipe, base="folder:./another", lora={"rank": rank}), actor="ann")
        server.add_partition("recipe", recipe)
    roots = [
        server.backfill(["raw_dataset", "dataset"], ["acme.boxes.v1"]),
        server.backfill(["base_model", "baseline_report"], list(RECIPES)),
    ]
    assert [ended(server, each) for each in roots] == ["COMPLETED_SUCCESS"] * 2
    for pair in sorted(PAIRS):
        server.add_partition("pair", pair)
    pairs = server.backfill(["token_pack", "checkpoint", "eval_report", "adapter"], sorted(PAIRS))
    assert ended(server, pairs) == "COMPLETED_SUCCESS"
    # Of all recipes and datasets, the page counts the pairs that were asked for and no others.
    asked = {each.pair for each in all_submissions(store, "acme")}
    assert server.partition_counts("adapter")["partitions"] == len(asked)
    for asset in ("token_pack", "checkpoint", "eval_report", "adapter"):
        assert server.stale_statuses(asset, sorted(PAIRS)) == ["FRESH"] * 2, asset

    # Each pair is a submission of the backfill, and ended in an adapter. The sensor that records how a submission
    # ended comes after the backfill's own end.
    submissions = [each for each in all_submissions(store, "acme") if each.dataset == "acme.boxes.v1"]
    assert {(each.pair, each.origin) for each in submissions} == {(pair, "backfill") for pair in PAIRS}
    outcomes = [wait_for(lambda: find_outcome(store, each), LONG_S, "an outcome") for each in submissions]  # noqa: B023
    assert [outcome.status for outcome in outcomes] == [SubmissionStatus.ACCEPTED] * 2
    assert len({outcome.adapter for outcome in outcomes}) == 2
    # One base is mirrored and scored once for both recipes, and each pair is trained once.
    for (tenant, asset), count in kinds.items():
        made = set(store.folders(f"{tenant}/{asset}")) - before[tenant, asset]
        attempts = [len(attempts_at(store, Address.parse(f"{tenant}/{asset}/{each}"))) for each in made]
        assert attempts == [1] * count, asset
