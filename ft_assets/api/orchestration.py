"""What a submission has and what it needs next, for the process that runs its jobs."""

from collections.abc import Callable, Iterable, Mapping

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.control import identity
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.rejections.record import find_rejection
from ft_assets.control.submissions.admission import refusal, sweep_refusal
from ft_assets.control.submissions.failures import of_lost_run, of_text, with_logs
from ft_assets.control.submissions.plan import MOST_AGAIN, Launch, Present, RunState, Stage, Wanted, plan
from ft_assets.control.sweeps.trial_states import missing_trials
from ft_assets.records.failures import Failure
from ft_assets.records.submissions import Submission, SubmissionStatus, finish
from ft_assets.records.sweep_decision import SweepFailed
from ft_assets.settings.tenants import TenantsFile
from ft_assets.settings.ungated import without_gates
from ft_assets.workers.adapters.rejection import reasons
from ft_assets.workers.evals.gates import passed
from ft_assets.workers.evals.verdicts import judge_candidate
from ft_resources.artifacts import Artifacts
from ft_resources.errors import HeldForReview, MissingInput, UserError
from ft_resources.store import Store

__all__ = ["MOST_AGAIN", "Launch", "Present", "RunState", "Stage", "Wanted"]

# Why the newest failed run of a submission failed, as its orchestrator reports; None if none did.
FailureOf = Callable[[Submission], Failure | None]


def next_launches(
    wanted: Iterable[Wanted],
    places: Mapping[str, int] | None = None,
    *,
    failure_of: FailureOf = lambda submission: None,
    store: Store | None = None,
) -> tuple[list[Launch], int]:
    """The jobs to launch now that bring every submission one step further, and how many submissions ended: their ends
    are recorded here, with the cause and the remedy that every door shows.

    ``places`` has the number of further trainings allowed at once, for tenants with a limit.
    """
    store, launches, ended = store_or_default(store), list[Launch](), 0
    for action in plan(wanted, places):
        if isinstance(action, Launch):
            launches.append(action)
        else:
            failure = action.failure
            if action.of_run:
                failure = with_logs(failure_of(action.submission) or of_lost_run(), action.submission.id)
            elif failure is None and action.status is SubmissionStatus.FAILED:
                failure = of_text(action.reason)
            finish(
                store,
                action.submission,
                action.status,
                adapter=action.adapter,
                reason=action.reason,
                suggestions=action.suggestions,
                failure=failure,
            )
            ended += 1
    return launches, ended


def impossible(error: UserError) -> Present:
    """The ``Present`` of a submission whose inputs cannot be read, or whose pair can never work."""
    return Present(done=frozenset(), problem=str(error), failure=of_text(str(error), name=type(error).__name__))


def require_approved(dataset: str, *, store: Store | None = None) -> None:
    """Raise HeldForReview where a person must look at the dataset version before it may be used, and MissingInput where
    it is not curated."""
    identity.approved_dataset(Artifacts(store_or_default(store)), dataset)


def present(submission: Submission, *, store: Store | None = None, tenants: TenantsFile | None = None) -> Present:
    """Which stages are done, why the dataset is held, the adapter's address, or the reason of a rejection.

    A training that may not be launched, by its estimate, is a problem that ends the submission. Raises UserError for
    records that cannot be read, and for a pair that can never work.
    """
    artifacts, tenants = Artifacts(store_or_default(store)), tenants_or_default(tenants)
    dataset, recipe = submission.dataset, submission.recipe
    done, held = set(), ""
    try:
        identity.approved_dataset(artifacts, dataset)
        done.add(Stage.PREPARE_DATASET)
    except HeldForReview as error:
        held = error.what
        # It is curated, unless what is held is a dataset that it mixes in.
        if error.dataset == dataset:
            done.add(Stage.PREPARE_DATASET)
    except MissingInput:
        pass
    if _exists(lambda: identity.baseline_report(artifacts, recipe)):
        done.add(Stage.PREPARE_RECIPE)
    if held:
        return Present(done=frozenset(done), held=held)
    if len(done) < 2:
        return Present(done=frozenset(done))
    carries = submission.mode == "carry"
    if carries and (problem := identity.carry_problem(artifacts, dataset, recipe)):
        return Present(done=frozenset(done), problem=problem)
    try:
        request = identity.adapter_request(artifacts, dataset, recipe, submission.gates)
    except SweepFailed as error:
        return Present(done=frozenset(done), problem=str(error))
    except MissingInput:
        if carries:
            # Nothing is trained, so there is nothing to estimate and no sweep to try.
            return Present(done=frozenset(done))
        limit, trials = submission.max_gpu_hours, missing_trials(artifacts, dataset, recipe)
        if trials:
            problem = sweep_refusal(artifacts, tenants, dataset, trials, limit)
            return Present(done=frozenset(done), problem=problem, trials=trials)
        return Present(done=frozenset(done), problem=refusal(artifacts, tenants, dataset, recipe, limit))
    adapter = artifacts.find(request.address)
    if adapter is not None and without_gates(request.params):
        return Present(done=frozenset({*done, Stage.TRAIN_PAIR}), ungated=str(adapter.address))
    if adapter is not None:
        return Present(
            done=frozenset({*done, Stage.TRAIN_PAIR}),
            adapter=str(adapter.address),
            exports=tuple(
                identity.exports_missing(artifacts, adapter, get_recipe(artifacts.store, recipe).recipe.exports)
            ),
        )
    verdicts = judge_candidate(artifacts, request.inputs, request.params)
    if passed(verdicts) or without_gates(request.params):
        return Present(done=frozenset(done))
    record = find_rejection(artifacts.store, request, verdicts)
    suggestions = record.suggestions if record else ()
    return Present(done=frozenset(done), rejection=reasons(verdicts), suggestions=suggestions)


def _exists(find: Callable[[], object]) -> bool:
    try:
        find()
    except MissingInput:
        return False
    return True
