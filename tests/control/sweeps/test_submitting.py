"""A sweep's submission as a whole, also as its sensor drives it."""

import dagster as dg
import pytest

from ft_assets.api import present, rebuild
from ft_assets.control.planning.estimate import estimate_file, estimate_training
from ft_assets.control.recipes.stored import list_recipes
from ft_assets.control.submissions.admission import OverLimit, require_affordable
from ft_assets.control.submissions.plan import RunState
from ft_assets.control.submissions.sharing import needed_by_others
from ft_assets.control.submissions.status import State, status_of
from ft_assets.control.submissions.sweep_progress import trial_progress
from ft_assets.control.submissions.works import read_works
from ft_assets.control.sweeps.trial_retirement import Decided, listed_recipes, plan_retiring
from ft_assets.control.sweeps.trial_states import decide
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.orchestrator import Dagster
from ft_assets.graph.retire_trials import retire_trials
from ft_assets.graph.runs import SubmissionRuns, run_states
from ft_assets.records.submissions import Submission, SubmissionStatus, finish
from ft_assets.settings import tags
from ft_assets.settings.tenants import load_tenants
from ft_resources.outcomes import Outcome
from tests.control.submissions.estimate_world import DATASET, World
from tests.control.sweeps.made import SWEEP, TRIALS, ended, make_sweep, trained
from tests.made import made_submission, submitted
from tests.sensors.conftest import drive, started


def ask(world: World, max_gpu_hours: float | None = None, key: str = "ask-1") -> Submission:
    return submitted(world.store, DATASET, SWEEP, key=key, max_gpu_hours=max_gpu_hours)


def test_what_is_waited_for_shrinks_as_trials_end_and_a_failed_sweep_says_how(sweep: World) -> None:
    submission = ask(sweep)
    assert present(submission, store=sweep.store).trials == TRIALS
    trained(sweep, TRIALS[0])
    ended(sweep, TRIALS[1], Outcome.DIVERGED)
    ended(sweep, TRIALS[2], Outcome.PREEMPTED)
    assert present(submission, store=sweep.store).trials == TRIALS[2:]
    ended(sweep, TRIALS[2], Outcome.DIVERGED)
    decided = present(submission, store=sweep.store)
    assert (decided.trials, decided.problem) == ((), "")
    decide(sweep.artifacts, DATASET, SWEEP)
    assert "no trial of the sweep rates.v1 can win" in present(submission, store=sweep.store).problem


def test_the_estimate_of_a_sweep_is_the_sum_of_its_trials_also_from_its_file(sweep: World) -> None:
    whole = estimate_training(sweep.artifacts, load_tenants(), DATASET, SWEEP)
    parts = [estimate_training(sweep.artifacts, load_tenants(), DATASET, trial) for trial in TRIALS]
    assert whole.trials == 3
    assert whole.steps == sum(part.steps for part in parts)
    assert whole.gpu_hours is not None
    assert whole.gpu_hours.expected == pytest.approx(sum(part.gpu_hours.expected for part in parts))
    assert whole.memory == parts[0].memory
    settings = {path: (value, origin) for path, value, origin in whole.settings}
    assert settings["training.learning_rate"] == ("0.001 | 0.0001 | 1e-05", "sweep")
    found = estimate_file(sweep.artifacts, load_tenants(), DATASET, sweep.project.folder / f"{SWEEP}.yaml")
    assert found.trials == 3
    assert found.steps > 0


def test_the_submissions_maximum_is_held_against_the_sum_of_what_is_left(sweep: World) -> None:
    one = estimate_training(sweep.artifacts, load_tenants(), DATASET, TRIALS[0]).gpu_hours
    maximum = 2.5 * one.expected
    refused = present(ask(sweep, maximum), store=sweep.store)
    assert "these 3 trainings are together expected to take" in refused.problem
    with pytest.raises(OverLimit, match="the submission's maximum"):
        require_affordable(sweep.artifacts, load_tenants(), DATASET, TRIALS[1], maximum)
    trained(sweep, TRIALS[0], 1.0)
    require_affordable(sweep.artifacts, load_tenants(), DATASET, TRIALS[1], maximum)
    assert present(ask(sweep, maximum), store=sweep.store).problem == ""


def test_the_runs_of_trials_are_told_apart(world: World) -> None:
    submission = made_submission(dataset=DATASET, recipe=SWEEP)
    with dg.DagsterInstance.ephemeral() as instance:
        for trial, status in ((TRIALS[0], dg.DagsterRunStatus.SUCCESS), (TRIALS[1], dg.DagsterRunStatus.STARTED)):
            run_tags = {tags.SUBMISSION: submission.id, tags.TRIAL: trial}
            instance.add_run(dg.DagsterRun(job_name="train_trial", tags=run_tags, status=status))
        assert run_states(instance, submission) == SubmissionRuns(
            trials={TRIALS[0]: RunState.SUCCEEDED, TRIALS[1]: RunState.ACTIVE}
        )


def test_status_shows_every_trial_and_a_diverged_one_fails_nothing(sweep: World) -> None:
    submission = ask(sweep)
    trained(sweep, TRIALS[0], 2.0)
    ended(sweep, TRIALS[1], Outcome.DIVERGED)
    assert [work.trial for work in read_works(sweep.store, submission) if work.trial] == list(TRIALS)
    assert status_of(sweep.store, submission).state is State.TRAINING
    shown = trial_progress(sweep.store, submission)
    assert [(item.state, item.validation_loss) for item in shown] == [
        ("trained", 2.0),
        ("diverged", None),
        ("queued", None),
    ]
    trained(sweep, TRIALS[2], 1.0)
    decide(sweep.artifacts, DATASET, SWEEP)
    assert [item.winner for item in trial_progress(sweep.store, submission)] == [False, False, True]


def test_a_trials_training_is_not_stopped_while_another_submission_of_the_sweep_needs_it(sweep: World) -> None:
    mine, other = ask(sweep), ask(sweep, key="ask-2")
    attempt = ended(sweep, TRIALS[0], Outcome.PREEMPTED)
    assert needed_by_others(sweep.store, attempt.address, mine)
    finish(sweep.store, other, SubmissionStatus.CANCELLED)
    assert not needed_by_others(sweep.store, attempt.address, mine)


def test_only_what_nobody_needs_is_retired() -> None:
    decided = [Decided(sweep="a.v1", trials=("a-t01.v1", "a-t02.v1")), Decided(sweep="b.v1", trials=("b-t01.v1",))]
    listed = {"a.v1", "a-t01.v1", "b.v1", "b-t01.v1"}

    def retired(wanted=(), busy=()):
        return {plan.sweep: plan.keys for plan in plan_retiring(decided, listed=listed, wanted=wanted, busy=busy)}

    assert retired() == {"a.v1": ("a-t01.v1",), "b.v1": ("b-t01.v1",)}
    assert retired(wanted={"a.v1"}) == {"b.v1": ("b-t01.v1",)}
    assert retired(busy={"b-t01.v1"}) == {"a.v1": ("a-t01.v1",)}


def test_retired_trials_are_gone_from_dagster_and_come_back_with_no_rebuild(world, monkeypatch) -> None:
    monkeypatch.setenv("FT_TRACKING", "off")
    make_sweep(world)
    submission = ask(world)
    with dg.DagsterInstance.ephemeral() as instance:
        for key in list_recipes(world.store):
            list_keys(instance, dataset=DATASET, recipe=key)
        for trial in TRIALS:
            trained(world, trial, 1.0)
        assert retire_trials(world.store, instance) == []
        decide(world.artifacts, DATASET, SWEEP)
        # Its own submission is open; then a run of a trial is.
        assert retire_trials(world.store, instance) == []
        finish(world.store, submission, SubmissionStatus.ACCEPTED, adapter="a")
        run_tags = {"dagster/partition": f"{DATASET}|{TRIALS[2]}"}
        run = dg.DagsterRun(job_name="train_trial", tags=run_tags, status=dg.DagsterRunStatus.STARTED)
        instance.add_run(run)
        assert retire_trials(world.store, instance) == []
        instance.delete_run(run.run_id)
        assert retire_trials(world.store, instance) == list(TRIALS)
        assert instance.get_dynamic_partitions("recipe") == [SWEEP]
        assert retire_trials(world.store, instance) == []
        assert listed_recipes(world.store) == [SWEEP]
        rebuild(store=world.store, orchestrator=Dagster(instance))
        assert instance.get_dynamic_partitions("recipe") == [SWEEP]
    # What they made stays.
    assert decide(world.artifacts, DATASET, SWEEP) is not None


def test_before_a_decision_a_rebuild_lists_the_trials_with_what_they_made(world, monkeypatch) -> None:
    monkeypatch.setenv("FT_TRACKING", "off")
    make_sweep(world)
    ask(world)
    trained(world, TRIALS[0], 1.0)
    with dg.DagsterInstance.ephemeral() as instance:
        done = rebuild(store=world.store, orchestrator=Dagster(instance))
        assert done.problems == []
        assert set(instance.get_dynamic_partitions("recipe")) == {SWEEP, *TRIALS}
        partitions = instance.get_materialized_partitions(dg.AssetKey("checkpoint"))
        assert partitions == {f"{DATASET}|{TRIALS[0]}"}


def launched(instance: dg.DagsterInstance, world: World) -> dict[str, str]:
    """Partition to job of what a tick launches; the runs are recorded as started."""
    found = drive(world.project, instance)
    if isinstance(found, dg.SkipReason):
        return {}
    started(instance, found)
    return {str(request.partition_key): str(request.job_name) for request in found.run_requests}


def end(instance: dg.DagsterInstance, trial: str, *, well: bool) -> None:
    (run,) = instance.get_runs(filters=dg.RunsFilter(tags={tags.TRIAL: trial}))
    instance.delete_run(run.run_id)
    status = dg.DagsterRunStatus.SUCCESS if well else dg.DagsterRunStatus.FAILURE
    instance.add_run(run.with_status(status))


@pytest.fixture
def instance(world: World):
    with dg.DagsterInstance.ephemeral() as found:
        make_sweep(world)
        for asset, key in (("dataset", DATASET), ("baseline_report", SWEEP)):
            found.report_runless_asset_event(dg.AssetMaterialization(asset_key=asset, partition=key))
        yield found


@pytest.mark.dagster
def test_each_trial_is_launched_once_then_the_pair_and_the_trials_are_retired(world: World, instance) -> None:
    submission = submitted(world.store, DATASET, SWEEP)
    assert launched(instance, world) == {f"{DATASET}|{trial}": "train_trial" for trial in TRIALS}
    assert set(instance.get_dynamic_partitions("recipe")) == set(TRIALS)
    assert launched(instance, world) == {}
    for trial in TRIALS[:2]:
        trained(world, trial, 1.0)
        end(instance, trial, well=True)
    assert launched(instance, world) == {}
    ended(world, TRIALS[2], Outcome.DIVERGED)
    end(instance, TRIALS[2], well=False)
    assert launched(instance, world) == {f"{DATASET}|{SWEEP}": "train_pair"}
    decide(world.artifacts, DATASET, SWEEP)
    assert launched(instance, world) == {}
    assert set(instance.get_dynamic_partitions("recipe")) == {*TRIALS, SWEEP}
    finish(world.store, submission, SubmissionStatus.ACCEPTED, adapter="a")
    found = drive(world.project, instance)
    assert "retired 3 trials" in str(found.skip_message)
    assert instance.get_dynamic_partitions("recipe") == [SWEEP]


def test_a_new_wish_goes_on_with_what_a_cancelled_one_left(world: World, instance) -> None:
    trained(world, TRIALS[0], 1.0)
    ended(world, TRIALS[1], Outcome.CANCELLED)
    ended(world, TRIALS[2], Outcome.PREEMPTED)
    submitted(world.store, DATASET, SWEEP)
    assert set(launched(instance, world)) == {f"{DATASET}|{trial}" for trial in TRIALS[1:]}
