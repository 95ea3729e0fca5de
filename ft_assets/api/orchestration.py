"""What exists for a submission, read from the store by the same walk that the assets use."""

from collections.abc import Callable

from ft_assets import identity
from ft_assets.adapters.export import reasons
from ft_assets.evals.gates import passed
from ft_assets.evals.judging import judge_candidate
from ft_assets.rejections.record import find_rejection
from ft_assets.submissions.admission import refusal, sweep_refusal
from ft_assets.submissions.plan import Present, Stage
from ft_assets.submissions.record import Submission
from ft_assets.sweeps.decision import SweepFailed
from ft_assets.sweeps.trials import missing_trials
from ft_resources.artifacts import Artifacts
from ft_resources.errors import HeldForReview, MissingInput


def present(artifacts: Artifacts, submission: Submission) -> Present:
    """Which stages are done, why the dataset is held, the adapter's address, or the reason of a rejection.

    A training that may not be launched, by its estimate, is a problem that ends the submission.
    """
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
            problem = sweep_refusal(artifacts, dataset, trials, limit)
            return Present(done=frozenset(done), problem=problem, trials=trials)
        return Present(done=frozenset(done), problem=refusal(artifacts, dataset, recipe, limit))
    adapter = artifacts.find(request.address)
    if adapter is not None:
        return Present(done=frozenset({*done, Stage.TRAIN_PAIR}), adapter=str(adapter.address))
    verdicts = judge_candidate(artifacts, request.inputs, request.params)
    if passed(verdicts):
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
