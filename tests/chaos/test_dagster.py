"""Faults of Dagster's own processes while a pod trains: its run worker, its daemon, its database.

Each submission ends with its adapter there once, one Job for each attempt, nothing left running, everything billed
once. All use one project and one control plane, as starting them takes longer than a training.
"""

from collections import Counter
from collections.abc import Iterator

import dagster as dg
import pytest

from ft_assets.control import identity
from ft_assets.control.metering.ledger import Ledger
from ft_assets.control.metering.usage import read_usage
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.control.submissions.submit import submit
from ft_assets.definitions import build_definitions
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.partitions import pair_key
from ft_assets.records.submissions import Submission, SubmissionStatus, find_outcome
from ft_assets.settings import tags
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import OPEN_ATTEMPTS, Attempt, attempts_at
from ft_resources.errors import MissingInput
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from tests.chaos.control_plane import TENANT, ControlPlane, control_plane
from tests.chaos.runs import ended
from tests.chaos.world import lives
from tests.cluster.objects import JOBS, PODS
from tests.e2e.dagster_server import wait_for
from tests.e2e.project import LONG, Project
from tests.postgres import restart_postgres

# The same faults under a control plane without Dagster's processes: ``test_chaos.py``, in each `make test`.
pytestmark = [pytest.mark.e2e, pytest.mark.long, pytest.mark.usefixtures("warm")]

DATASET = f"{TENANT}.things.v1"
RUN_WORKER, DAEMON = "run-worker.v1", "daemon.v1"
# Of a machine that does other things too; nothing here is about speed.
PATIENCE_S = 600.0


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    with control_plane(tmp_path_factory.mktemp("production"), prepare) as control:
        yield control


def prepare(project: Project, instance: dg.DagsterInstance) -> None:
    """All inputs of two trainings."""
    policy = DatasetPolicy()
    add_dataset_version(project.store, project.dataset(), tenant=TENANT, name="things", policy=policy, actor="ann")
    run(project, instance, "prepare_dataset", dataset=DATASET)
    for number, recipe in enumerate((RUN_WORKER, DAEMON)):
        # Of what a pack does not know, so that there is one for all.
        training = {"learning_rate": 0.01 + number / 1000}
        register_recipe(project.store, project.recipe(recipe, steps=LONG, training=training), actor="ann")
        run(project, instance, "prepare_recipe", recipe=recipe)


def run(project: Project, instance: dg.DagsterInstance, job: str, **key: str) -> None:
    list_keys(instance, **key)
    definition = build_definitions(project.store_url).resolve_job_def(job)
    assert definition.execute_in_process(instance=instance, partition_key=key.popitem()[1]).success


def ask(control: ControlPlane, recipe: str) -> Submission:
    return submit(control.store, load_tenants(), dataset=DATASET, recipe=recipe, actor="ann", origin="cli")[0]


def training_of(control: ControlPlane, recipe: str) -> Attempt:
    """The attempt in whose pod the recipe trains now."""

    def trains() -> Attempt | None:
        try:
            request = identity.checkpoint_request(Artifacts(control.store), DATASET, recipe)
        except MissingInput:
            return None
        attempts = attempts_at(control.store, request.address)
        return attempts[-1] if attempts and attempts[-1].steps() else None

    return wait_for(trains, PATIENCE_S, "the training", every_s=0.2)


def runs_of(control: ControlPlane, submission: Submission) -> list[dg.DagsterRun]:
    """Oldest first."""
    filters = dg.RunsFilter(tags={tags.SUBMISSION: submission.id})
    return list(reversed(control.instance.get_runs(filters=filters)))


def told(control: ControlPlane, run_id: str) -> list[str]:
    return [event.user_message for event in control.instance.all_logs(run_id)]


def check_whole(control: ControlPlane, submission: Submission) -> None:
    """Wait for the submission's end, and for what is written after it: everything is there once."""
    store = control.store
    outcome = wait_for(lambda: find_outcome(store, submission), PATIENCE_S, "the end of the submission")
    assert outcome.status is SubmissionStatus.ACCEPTED, outcome.reason
    assert Artifacts(store).get(Address.parse(outcome.adapter)).verify() == []
    wait_for(lambda: all(run.is_finished for run in runs_of(control, submission)), PATIENCE_S, "the end of its runs")
    partition = pair_key(DATASET, submission.recipe)
    for asset in ("checkpoint", "eval_report", "adapter"):
        shown = dg.AssetRecordsFilter(asset_key=dg.AssetKey(asset), asset_partitions=[partition])
        assert len(control.instance.fetch_materializations(shown, limit=10).records) == 1, asset
        # Of this submission and those before it, which the control plane knows as well.
        assert len(store.folders(f"{TENANT}/{asset}")) == len(store.folders(f"{TENANT}/adapter")), asset
    wait_for(lambda: not goes_on(control), PATIENCE_S, "the end of all Jobs and pods")
    attempts = all_attempts(store)
    made = Counter(control.created)
    assert {name: count for name, count in made.items() if count > 1} == {}
    assert {attempt.number for attempt in attempts} == {1}
    check_bill(control, attempts)


def goes_on(control: ControlPlane) -> list[str]:
    """Jobs and pods that have not ended."""
    objects = control.cluster.objects
    left = [*objects.list(JOBS, "", lambda job: not ended(job)), *objects.list(PODS, "", lives)]
    return [each["metadata"]["name"] for each in left]


def all_attempts(store: Store) -> list[Attempt]:
    """Of the tenant's artifacts, whoever made them."""
    artifacts = [(asset, name) for asset in store.folders(TENANT) for name in store.folders(f"{TENANT}/{asset}")]
    addresses = [Address.parse(f"{TENANT}/{asset}/{name}") for asset, name in artifacts if len(name) == 64]
    return [attempt for address in addresses for attempt in attempts_at(store, address)]


def check_bill(control: ControlPlane, attempts: list[Attempt]) -> None:
    """One record for each attempt, all of work that was done, and the same in the ledger."""
    store = control.store
    wait_for(lambda: not list(store.entries(f"{OPEN_ATTEMPTS}/{TENANT}")), PATIENCE_S, "what was used to be counted")
    months = store.folders(f"{TENANT}/usage")
    records = [each for month in months for each in read_usage(store, TENANT, month)]
    assert len(records) == len(attempts) == len({each.key for each in records})
    assert {(each.outcome, each.refund) for each in records} == {(Outcome.DONE, "none")}
    ledger = Ledger(control.ledger_url)

    def rows() -> list[str]:
        return [row.key for month in months for row in ledger.usage_rows(TENANT, month)]

    try:
        wait_for(lambda: len(rows()) >= len(records), PATIENCE_S, "the ledger")
        assert sorted(rows()) == sorted(each.key for each in records)
    finally:
        ledger.close()


def test_a_killed_run_workers_next_run_attaches_to_the_job_that_trains(control: ControlPlane) -> None:
    submission = ask(control, RUN_WORKER)
    attempt = training_of(control, RUN_WORKER)
    (killed,) = runs_of(control, submission)
    attached = f"attached to attempt 1 at {attempt.address}"
    with control.held(attempt):
        control.kill_run_worker(killed.run_id)
        (retry,) = wait_for(lambda: runs_of(control, submission)[1:], PATIENCE_S, "another run")
        wait_for(lambda: attached in told(control, retry.run_id), PATIENCE_S, "it to attach")
    check_whole(control, submission)
    states = [(run.run_id, run.parent_run_id, run.status) for run in runs_of(control, submission)]
    assert states == [
        (killed.run_id, None, dg.DagsterRunStatus.FAILURE),
        (retry.run_id, killed.run_id, dg.DagsterRunStatus.SUCCESS),
    ]


def test_a_daemon_killed_twice_and_a_database_that_crashes_under_a_run_launch_and_lose_nothing(
    control: ControlPlane,
) -> None:
    """The daemon between making a run and launching it, or soon after, and while the run's pod trains, as the database
    does."""
    submission = ask(control, DAEMON)
    wait_for(lambda: runs_of(control, submission), PATIENCE_S, "a run", every_s=0.2)
    control.daemon.kill()
    with control.held(training_of(control, DAEMON)):
        control.daemon.kill()
        restart_postgres(down_s=2.0)
    check_whole(control, submission)
    assert [run.status for run in runs_of(control, submission)] == [dg.DagsterRunStatus.SUCCESS]
