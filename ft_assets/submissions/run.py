"""Fine-tune from Python: the same records, plan and jobs as the UI, run in this process."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path

import dagster as dg

from ft_assets import identity, tags
from ft_assets.cli.environment import prepare_environment
from ft_assets.queueing import tier_tags
from ft_assets.submissions.cut_off import all_cut_off
from ft_assets.submissions.estimate import Estimate, estimate_training
from ft_assets.submissions.plan import Finish, Launch, Present, RunState, Stage, Wanted, plan
from ft_assets.submissions.present import present
from ft_assets.submissions.record import (
    Submission,
    SubmissionOutcome,
    SubmissionStatus,
    check_wish,
    find_outcome,
    finish,
    submit,
)
from ft_assets.submissions.record import resubmit_key as next_key
from ft_assets.submissions.runs import as_dagster_shows
from ft_assets.sweeps.retiring import retire_trials
from ft_assets.tenants import TenantsFile, load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import default_store_url
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.store import Store

# Databases have a limit of parameters in a question.
_KEYS_AT_ONCE = 500
# How often another process may add a key between a look and the insert after it.
_RACES = 5


@dataclass(frozen=True, kw_only=True)
class FineTuned:
    """How a fine-tune ended: ``outcome.adapter`` is the adapter's address where it was accepted.

    ``estimate`` is what the training was expected to take before anything of it ran.
    """

    submission: Submission
    outcome: SubmissionOutcome
    estimate: Estimate


def fine_tune(
    dataset: Path | str,
    recipe: Path | str,
    *,
    name: str = "",
    policy: Path | str | None = None,
    store_url: str | None = None,
    instance: dg.DagsterInstance | None = None,
    actor: str | None = None,
    max_gpu_hours: float | None = None,
    gates: Sequence[str] = (),
    holdout: Sequence[Path | str] = (),
    on_launch: Callable[[Launch], None] | None = None,
) -> FineTuned:
    """Turn a dataset file and a recipe into a gated adapter, and wait for it.

    Args:
        dataset: a JSONL file or ``hub:org/name@revision#split`` (then ``name`` is needed), or the key of a version.
        recipe: a recipe's YAML file, or the key of a registered recipe.
        name: ``tenant.name`` that the file becomes a version of.
        policy: the ``dataset.yaml`` that goes with the file.
        store_url: where everything is kept; ``FT_STORE`` or ``.ft/store`` where not given.
        instance: the Dagster instance that records the runs; where not given, the one that ``ft`` uses here.
        actor: who asks; the operating system's user where not given.
        max_gpu_hours: the training is refused where it is expected to take more; None for no limit.
        gates: what to ask for beyond the recipe's gates, such as ``exact_match > 0.6``; only stricter ones.
        holdout: with a file, files of rows to measure on; they are part of the version that the file becomes.
        on_launch: told of every job before it runs.

    Returns:
        The submission, its outcome (accepted with the adapter's address, rejected with the gates' reasons, failed or
        cancelled) and the estimate.

    Raises:
        UserError: for anything wrong with the dataset, the policy, the recipe or the pair, before any work.
        HeldForReview: where a person must look at the dataset first. The submission stays open: call this again with
            the same keys after ``ft dataset approve``.
    """
    if instance is None:
        prepare_environment()
        instance = dg.DagsterInstance.get()
    store = Store(store_url or default_store_url())
    actor = actor or getuser()
    dataset_key = _dataset_key(store, dataset, name, policy, actor, holdout)
    recipe_key = _recipe_key(store, recipe, actor)
    check_wish(store, dataset_key, recipe_key)
    estimate = estimate_training(Artifacts(store), dataset_key, recipe_key)
    submission, _ = submit(
        store,
        dataset=dataset_key,
        recipe=recipe_key,
        actor=actor,
        origin="python",
        driver="caller",
        idempotency_key=next_key(store, dataset_key, recipe_key, gates),
        max_gpu_hours=max_gpu_hours,
        gates=gates,
    )
    outcome = drive(store, instance, submission, on_launch=on_launch)
    return FineTuned(submission=submission, outcome=outcome, estimate=estimate)


def drive(
    store: Store,
    instance: dg.DagsterInstance,
    submission: Submission,
    *,
    on_launch: Callable[[Launch], None] | None = None,
) -> SubmissionOutcome:
    """Run the submission's jobs in this process, one after the other, until it has ended.

    Raises HeldForReview, and leaves the submission open, where a person must look at the dataset first. What else is
    wrong with the pair is raised as what it is (UserError), and the submission ends with it.
    """
    register_partitions(instance, dataset=submission.dataset, recipe=submission.recipe)
    runs: dict[Stage, RunState] = {}
    trial_runs: dict[str, RunState] = {}
    again: dict[str, int] = {}
    artifacts = Artifacts(store)
    while (outcome := find_outcome(store, submission)) is None:
        shown = as_dagster_shows(instance, submission, _present(artifacts, submission))
        wanted = Wanted(submission=submission, present=shown, runs=runs, trial_runs=trial_runs, again=again)
        actions = plan([wanted])
        if not actions:
            # No run is active here, so only a held dataset can be waited for; in the foreground nobody waits for days.
            identity.approved_dataset(artifacts, submission.dataset)
            continue
        # One at a time: what it gives may say that the others are not wanted.
        action = actions[0]
        if isinstance(action, Finish):
            record_end(store, action)
        else:
            if on_launch:
                on_launch(action)
            state = _execute(store, instance, action)
            again[action.trial or action.stage] = action.again
            if action.trial:
                trial_runs[action.trial] = state
            else:
                runs[action.stage] = state
    retire_trials(store, instance)
    return outcome


def record_end(store: Store, action: Finish) -> SubmissionOutcome:
    """Record how a submission ended, as the plan says."""
    return finish(
        store,
        action.submission,
        action.status,
        adapter=action.adapter,
        reason=action.reason,
        suggestions=action.suggestions,
    )


def _present(artifacts: Artifacts, submission: Submission) -> Present:
    """What is there. Ends the submission where it can never be: of data that the method does not learn from, say."""
    try:
        return present(artifacts, submission)
    except StoreUnavailable:
        raise
    except UserError as error:
        finish(artifacts.store, submission, SubmissionStatus.FAILED, reason=str(error))
        raise


def register_partitions(instance: dg.DagsterInstance, *, dataset: str = "", recipe: str = "") -> None:
    """Make keys known to Dagster, which shows and runs only what it knows; adding one again changes nothing."""
    for dimension, key in (("dataset", dataset), ("recipe", recipe)):
        if key and not instance.has_dynamic_partition(dimension, key):
            _add(instance, dimension, [key])


def register_launched(instance: dg.DagsterInstance, launches: Iterable[Launch]) -> None:
    """Make the keys of many launches known to Dagster: a question for each dimension, and not for each launch."""
    keys: dict[str, set[str]] = {"dataset": set(), "recipe": set()}
    for launch in launches:
        keys["dataset"].add(launch.submission.dataset)
        keys["recipe"].add(launch.trial or launch.submission.recipe)
    for dimension, wanted in keys.items():
        ordered = sorted(wanted)
        for begin in range(0, len(ordered), _KEYS_AT_ONCE):
            _add(instance, dimension, ordered[begin : begin + _KEYS_AT_ONCE])


def _add(instance: dg.DagsterInstance, dimension: str, keys: list[str]) -> None:
    """Add keys, whoever else adds some of them now: on SQLite Dagster looks which are there and then inserts the rest,
    and an insert of what came in between is refused as a whole. The next look sees it."""
    from sqlalchemy.exc import IntegrityError

    for _ in range(_RACES):
        try:
            return instance.add_dynamic_partitions(dimension, keys)
        except IntegrityError:
            continue
    instance.add_dynamic_partitions(dimension, keys)


def launch_tags(action: Launch, tenants: TenantsFile) -> dict[str, str]:
    """The tags of a run that is launched for a submission."""
    submission = action.submission
    found = {tags.SUBMISSION: submission.id, tags.ACTOR: submission.actor, tags.TENANT: submission.tenant}
    found |= tier_tags(tenants, submission.tenant, trains=action.trains)
    found |= {tags.AGAIN: str(action.again)} if action.again else {}
    return found | ({tags.TRIAL: action.trial} if action.trial else {})


def _execute(store: Store, instance: dg.DagsterInstance, action: Launch) -> RunState:
    # Imported here: definitions import the sensors, which import this package.
    from ft_assets.definitions import build_definitions

    if action.trial:
        register_partitions(instance, recipe=action.trial)
    job = build_definitions(store.url).resolve_job_def(action.stage.value)
    result = job.execute_in_process(
        instance=instance,
        partition_key=action.partition,
        raise_on_error=False,
        tags={**launch_tags(action, load_tenants()), tags.FOREGROUND: "true"},
    )
    if result.success:
        return RunState.SUCCEEDED
    # Dagster does not raise a Ctrl-C again: it ends the step, and so the run, as failed by an interrupt.
    failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    interrupt = dg.DagsterExecutionInterruptedError.__name__
    if any(failure.error and failure.error.cls_name == interrupt for failure in failures):
        return RunState.CANCELLED
    return RunState.CUT_OFF if all_cut_off(failures) else RunState.FAILED


def _dataset_key(
    store: Store,
    dataset: Path | str,
    name: str,
    policy: Path | str | None,
    actor: str,
    holdout: Sequence[Path | str] = (),
) -> str:
    from ft_assets.datasets.adding import add_dataset

    if holdout and not name:
        raise UserError(
            "holdout rows belong to a dataset version, and this one has its own",
            where="holdout",
            remedy="Give the training rows as a file too, with a name: both together are the next version.",
        )
    if not name:
        return str(dataset)
    return str(add_dataset(store, dataset, name, Path(policy) if policy else None, actor=actor, holdout=holdout).key)


def _recipe_key(store: Store, recipe: Path | str, actor: str) -> str:
    from ft_assets.recipes.register import register_recipe

    if isinstance(recipe, Path) or str(recipe).endswith((".yaml", ".yml")):
        return str(register_recipe(store, Path(recipe), actor=actor).key)
    return recipe
