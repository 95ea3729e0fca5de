import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.submissions.plan import MOST_AGAIN, Finish, Launch, Present, RunState, Stage, Wanted, plan
from ft_assets.records.submissions import Submission, SubmissionStatus

SUBMISSION = Submission(
    id="0" * 16,
    dataset="acme.support.v1",
    recipe="tiny.v1",
    actor="ann",
    origin="ui",
    idempotency_key="k",
    driver="sensor",
    created_at="2026-01-01T00:00:00+00:00",
)
BOTH = frozenset({Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE})


def step(present: Present, **runs: RunState) -> list[Launch | Finish]:
    states = {Stage(name): state for name, state in runs.items()}
    return plan([Wanted(submission=SUBMISSION, present=present, runs=states)])


def test_both_preparations_start_at_once() -> None:
    actions = step(Present(done=frozenset()))
    assert [(a.stage, a.partition) for a in actions if isinstance(a, Launch)] == [
        (Stage.PREPARE_DATASET, "acme.support.v1"),
        (Stage.PREPARE_RECIPE, "tiny.v1"),
    ]


def test_what_is_prepared_already_is_not_run_again() -> None:
    actions = step(Present(done=frozenset({Stage.PREPARE_DATASET})))
    assert [a.stage for a in actions if isinstance(a, Launch)] == [Stage.PREPARE_RECIPE]


def test_training_waits_for_both_preparations() -> None:
    assert step(Present(done=frozenset()), prepare_dataset=RunState.ACTIVE, prepare_recipe=RunState.ACTIVE) == []
    actions = step(Present(done=BOTH), prepare_dataset=RunState.SUCCEEDED, prepare_recipe=RunState.SUCCEEDED)
    assert [(a.stage, a.partition) for a in actions if isinstance(a, Launch)] == [
        (Stage.TRAIN_PAIR, "acme.support.v1|tiny.v1")
    ]


def test_an_adapter_that_is_there_ends_the_submission_without_any_run() -> None:
    assert step(Present(done=BOTH, adapter="acme/adapter/f")) == [
        Finish(submission=SUBMISSION, status=SubmissionStatus.ACCEPTED, adapter="acme/adapter/f")
    ]


ACCEPTED = Present(done=BOTH | {Stage.TRAIN_PAIR}, adapter="acme/adapter/f", exports=("merged",))


def test_what_a_recipe_exports_is_made_before_its_accepted_submission_ends() -> None:
    (action,) = step(ACCEPTED, train_pair=RunState.SUCCEEDED)
    assert isinstance(action, Launch)
    assert (action.stage, action.partition, action.trains) == (Stage.EXPORT_PAIR, "acme.support.v1|tiny.v1", False)
    assert step(ACCEPTED, export_pair=RunState.ACTIVE) == []


@pytest.mark.parametrize("ended", [RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED])
def test_however_an_export_ends_the_adapter_is_accepted(ended: RunState) -> None:
    assert step(ACCEPTED, train_pair=RunState.SUCCEEDED, export_pair=ended) == [
        Finish(submission=SUBMISSION, status=SubmissionStatus.ACCEPTED, adapter="acme/adapter/f")
    ]


def test_a_rejected_candidate_is_a_result_not_a_failure() -> None:
    actions = step(Present(done=BOTH, rejection="benchmark_regression: 5 points"), train_pair=RunState.FAILED)
    assert actions == [
        Finish(submission=SUBMISSION, status=SubmissionStatus.REJECTED, reason="benchmark_regression: 5 points")
    ]


@pytest.mark.parametrize("stage", list(Stage))
def test_a_failed_stage_fails_the_submission_and_names_the_stage(stage: Stage) -> None:
    (action,) = step(Present(done=frozenset()), **{stage: RunState.FAILED})
    assert isinstance(action, Finish)
    assert action.status is SubmissionStatus.FAILED
    assert stage in action.reason


def test_a_run_that_succeeded_without_its_artifact_is_not_launched_for_ever() -> None:
    (action,) = step(Present(done=frozenset({Stage.PREPARE_RECIPE})), prepare_dataset=RunState.SUCCEEDED)
    assert isinstance(action, Finish)
    assert action.status is SubmissionStatus.FAILED


def test_records_that_cannot_be_read_end_the_submission_with_the_reason() -> None:
    (action,) = step(Present(done=frozenset(), problem="the manifest was altered"))
    assert isinstance(action, Finish)
    assert (action.status, action.reason) == (SubmissionStatus.FAILED, "the manifest was altered")


def test_a_cancelled_run_cancels_the_submission() -> None:
    (action,) = step(Present(done=BOTH), train_pair=RunState.CANCELLED)
    assert isinstance(action, Finish)
    assert action.status is SubmissionStatus.CANCELLED


def cut_off(present: Present, stage: Stage, again: int) -> list[Launch | Finish]:
    """What comes of a submission whose runs were cut off ``again + 1`` times in this stage."""
    runs, times = {stage: RunState.CUT_OFF}, {str(stage): again}
    return plan([Wanted(submission=SUBMISSION, present=present, runs=runs, again=times)])


@pytest.mark.parametrize("stage", [Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE, Stage.TRAIN_PAIR])
def test_a_stage_that_was_cut_off_is_launched_twice_more_each_time_under_a_key_of_its_own(stage: Stage) -> None:
    present = Present(done=BOTH - {stage})
    keys = [f"{SUBMISSION.id}:{stage}"]
    for again in range(MOST_AGAIN):
        (action,) = cut_off(present, stage, again)
        assert isinstance(action, Launch)
        # A tick that is repeated before the run is there asks for the same one.
        assert cut_off(present, stage, again) == [action]
        keys.append(action.run_key)
    assert len(set(keys)) == 3
    (end,) = cut_off(present, stage, MOST_AGAIN)
    assert isinstance(end, Finish)
    assert end.status is SubmissionStatus.FAILED
    assert stage in end.reason


def test_what_a_cut_off_run_had_made_already_is_not_made_again() -> None:
    (action,) = cut_off(Present(done=BOTH), Stage.PREPARE_DATASET, 0)
    assert isinstance(action, Launch)
    assert (action.stage, action.again) == (Stage.TRAIN_PAIR, 0)
    accepted = Present(done=BOTH | {Stage.TRAIN_PAIR}, adapter="acme/adapter/f")
    (end,) = cut_off(accepted, Stage.TRAIN_PAIR, 0)
    assert isinstance(end, Finish)
    assert end.status is SubmissionStatus.ACCEPTED


def test_a_candidate_whose_run_was_cut_off_before_its_rejection_was_recorded_is_judged_once_more() -> None:
    rejected = Present(done=BOTH, rejection="benchmark_regression: 5 points")
    (action,) = cut_off(rejected, Stage.TRAIN_PAIR, 0)
    assert isinstance(action, Launch)
    (end,) = cut_off(rejected, Stage.TRAIN_PAIR, MOST_AGAIN)
    assert isinstance(end, Finish)
    assert end.status is SubmissionStatus.REJECTED


def test_a_held_dataset_launches_nothing_fails_nothing_and_goes_on_after_approval() -> None:
    held = {"prepare_dataset": RunState.FAILED}
    assert step(Present(done=frozenset({Stage.PREPARE_DATASET}), held="look"), **held) == []
    assert step(Present(done=BOTH, held="look"), **held, prepare_recipe=RunState.SUCCEEDED) == []
    actions = step(Present(done=BOTH), **held, prepare_recipe=RunState.SUCCEEDED)
    assert [a.stage for a in actions if isinstance(a, Launch)] == [Stage.TRAIN_PAIR]


def test_what_fails_beside_a_held_dataset_still_fails_the_submission() -> None:
    (action,) = step(Present(done=frozenset({Stage.PREPARE_DATASET}), held="look"), prepare_recipe=RunState.FAILED)
    assert isinstance(action, Finish)
    assert action.status is SubmissionStatus.FAILED


@given(
    done=st.frozensets(st.sampled_from([Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE])),
    runs=st.dictionaries(st.sampled_from(list(Stage)), st.sampled_from(list(RunState))),
    adapter=st.sampled_from(["", "a/adapter/f"]),
    rejection=st.sampled_from(["", "gate"]),
    held=st.sampled_from(["", "look"]),
)
def test_a_stage_is_launched_only_once_and_never_before_its_inputs(
    done: frozenset[Stage], runs: dict[Stage, RunState], adapter: str, rejection: str, held: str
) -> None:
    present = Present(done=done, adapter=adapter, rejection=rejection, held=held)
    actions = plan([Wanted(submission=SUBMISSION, present=present, runs=runs)])
    launched = [a.stage for a in actions if isinstance(a, Launch)]
    finished = [a for a in actions if isinstance(a, Finish)]
    assert len(launched) == len(set(launched))
    assert not (launched and finished)
    assert all(runs.get(stage, RunState.NONE) in (RunState.NONE, RunState.CUT_OFF) for stage in launched)
    if Stage.TRAIN_PAIR in launched:
        assert done == BOTH
    assert all(bool(a.adapter) == (a.status is SubmissionStatus.ACCEPTED) for a in finished)
    assert not (held and launched)
    # Nothing to launch, nothing ended: then something must be running, or the submission would hang.
    if not actions and not held:
        assert RunState.ACTIVE in runs.values()
