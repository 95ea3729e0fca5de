"""A sweep through the whole graph, with real workers: three trials of which one diverges, one winner, one adapter."""

from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.api import FineTuned
from ft_assets.api.views import rebuild_tracking
from ft_assets.control import identity
from ft_assets.control.sweeps.trial_states import sweep_decision
from ft_assets.graph.listed_keys import list_keys, unlist_keys
from ft_assets.graph.orchestrator import Dagster
from ft_assets.graph.partitions import pair_key
from ft_assets.records.submissions import SubmissionStatus
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import UserError
from ft_resources.tracking import Mirror, start_from_spec
from tests.e2e.project import Project, make_project
from tests.mlflow_tables import new_mlflow as new_mlflow

pytestmark = pytest.mark.e2e

DATASET, SWEEP = "acme.things.v1", "rates.v1"
TRIALS = [f"rates-t{number:02}.v1" for number in (1, 2, 3)]
RATES = {"search": "grid", "parameters": {"training.learning_rate": [0.0001, 0.005, 1.0]}}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    return make_project(tmp_path_factory.mktemp("project"))


@pytest.fixture(scope="module")
def instance(project: Project) -> dg.DagsterInstance:
    return project.instance()


@pytest.fixture(scope="module")
def launches() -> list[str]:
    return []


@pytest.fixture(scope="module")
def done(project: Project, instance: dg.DagsterInstance, launches: list[str]) -> FineTuned:
    path = project.recipe(SWEEP, variant="full", sweep=RATES)
    text = path.read_text()
    path.write_text(text.replace("  learning_rate: 0.01\n", ""))
    orchestrator = Dagster(given=instance, on_launch=lambda launch: launches.append(launch.partition))
    return project.tune(project.dataset(), path, "acme.things", orchestrator=orchestrator)


def test_the_trials_are_trained_and_then_the_sweeps_pair_with_the_best(
    project: Project, done: FineTuned, launches: list[str]
) -> None:
    assert done.outcome.status is SubmissionStatus.ACCEPTED, done.outcome.reason
    assert launches == [DATASET, SWEEP, *[f"{DATASET}|{trial}" for trial in TRIALS], f"{DATASET}|{SWEEP}"]
    artifacts = Artifacts(project.store)
    decision = sweep_decision(artifacts, DATASET, SWEEP)
    assert decision is not None
    slow, right, wild = decision.trials
    assert (decision.winner, wild.ending) == (2, "diverged")
    assert slow.loss is not None
    assert right.loss is not None
    assert right.loss < slow.loss
    adapter = artifacts.get(Address.parse(done.outcome.adapter))
    assert adapter.manifest.inputs["checkpoint"].address == right.address
    # Nothing was trained again for the sweep itself.
    assert len(attempts_at(project.store, Address.parse(right.address))) == 1


def test_the_holdout_was_scored_once_and_a_trial_launched_by_hand_is_refused(
    project: Project, instance: dg.DagsterInstance, done: FineTuned
) -> None:
    assert len(project.store.folders("acme/eval_report")) == 1
    from ft_assets.definitions import build_definitions

    list_keys(instance, dataset=DATASET, recipe=TRIALS[0])
    run = (
        build_definitions(project.store_url)
        .resolve_job_def("train_pair")
        .execute_in_process(
            instance=instance,
            partition_key=f"{DATASET}|{TRIALS[0]}",
            asset_selection=[dg.AssetKey("eval_report")],
            raise_on_error=False,
        )
    )
    unlist_keys(instance, "recipe", [TRIALS[0]])
    assert not run.success
    failures = [event for event in run.all_node_events if event.is_step_failure]
    assert "only a sweep's winner is scored on the holdout" in str(failures[0].step_failure_data.error)
    assert len(project.store.folders("acme/eval_report")) == 1


def test_the_asset_has_a_table_of_the_trials(instance: dg.DagsterInstance, done: FineTuned) -> None:
    partition = pair_key(DATASET, SWEEP)
    records = dg.AssetRecordsFilter(asset_key=dg.AssetKey("checkpoint"), asset_partitions=[partition])
    (record,) = instance.fetch_materializations(records, limit=1).records
    assert record.asset_materialization is not None
    metadata = record.asset_materialization.metadata
    table = str(metadata["trials"].value)
    assert f"| {TRIALS[1]} | training.learning_rate 0.005 |" in table
    assert [line.endswith("| winner |") for line in table.splitlines()[2:]] == [False, True, False]
    assert table.splitlines()[-1].endswith("| diverged |")
    assert metadata["winner"].value == TRIALS[1]


def test_the_trials_keys_are_retired_and_what_they_made_stays(
    project: Project, instance: dg.DagsterInstance, done: FineTuned
) -> None:
    assert instance.get_dynamic_partitions("recipe") == [SWEEP]
    assert identity.checkpoint(Artifacts(project.store), DATASET, TRIALS[0]).verify() == []


def test_asking_again_trains_and_scores_nothing(project: Project, instance, done: FineTuned) -> None:
    again = project.tune(DATASET, SWEEP, actor="bob")
    assert again.outcome.adapter == done.outcome.adapter
    assert instance.get_dynamic_partitions("recipe") == [SWEEP]
    with pytest.raises(UserError, match="only a sweep's winner"):
        project.tune(DATASET, TRIALS[1])


def test_mlflow_compares_the_trials_below_one_run_and_names_the_winner(
    project: Project, done: FineTuned, new_mlflow: Callable[[Path], str]
) -> None:
    from mlflow.tracking import MlflowClient

    uri = new_mlflow(project.folder)
    mirror, decision = Mirror(uri), sweep_decision(Artifacts(project.store), DATASET, SWEEP)
    assert decision is not None
    # What the waiting op did for the trial that diverged; a rebuild brings back those that were finished.
    wild = Address.parse(decision.trials[2].address)
    start_from_spec(mirror, attempts_at(project.store, wild)[-1])
    mirror.run_finished(str(wild), "FAILED")
    for _ in range(2):
        assert rebuild_tracking(project.store, mirror).problem == ""

    client = MlflowClient(uri, uri)
    experiment = client.get_experiment_by_name("acme").experiment_id
    runs = client.search_runs([experiment], f"tags.`ft/sweep` = '{SWEEP}'")
    (parent,) = [run for run in runs if run.data.tags.get("ft.asset") == "sweep"]
    trials = {run.data.tags["ft/trial"]: run for run in runs if "ft/trial" in run.data.tags}
    assert len(runs) == 4
    assert {number: run.data.params["training.learning_rate"] for number, run in trials.items()} == {
        "1": "0.0001",
        "2": "0.005",
        "3": "1.0",
    }
    assert {number: run.data.tags["ft/winner"] for number, run in trials.items()} == {
        "1": "false",
        "2": "true",
        "3": "false",
    }
    assert all(run.data.tags["mlflow.parentRunId"] == parent.info.run_id for run in trials.values())
    assert trials["1"].data.metrics["validation_loss"] > trials["2"].data.metrics["validation_loss"]
    assert trials["3"].info.status == "FAILED"
