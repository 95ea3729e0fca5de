"""The plan of submissions is pure: what is launched, what has ended, and what is waited for, also while paused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.submissions.plan import MOST_AGAIN, Finish, Launch, Present, RunState, Stage, Wanted, plan
from ft_assets.records.submissions import SubmissionStatus
from tests.made import made_submission

SUBMISSION = made_submission()
BOTH = frozenset({Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE})
ADAPTER = "acme/adapter/f"
ACCEPTED = Present(done=BOTH | {Stage.TRAIN_PAIR}, adapter=ADAPTER, exports=("merged",))
REJECTED = Present(done=BOTH, rejection="benchmark_regression: 5 points")
NOTHING, READY = Present(done=frozenset()), Present(done=BOTH)
HELD = Present(done=frozenset({Stage.PREPARE_DATASET}), held="look")
DATASET, RECIPE, PAIR = "acme.support.v1", "tiny.v1", "acme.support.v1|tiny.v1"
ACTIVE, SUCCEEDED, FAILED, CANCELLED = RunState.ACTIVE, RunState.SUCCEEDED, RunState.FAILED, RunState.CANCELLED
ENDED = (SUCCEEDED, FAILED, CANCELLED)


def step(present: Present, *, paused: bool = False, **runs: RunState) -> list[Launch | Finish]:
    states = {Stage(name): state for name, state in runs.items()}
    return plan([Wanted(submission=SUBMISSION, present=present, runs=states, paused=paused)])


def told(actions: list[Launch | Finish]) -> list[tuple[str, str]]:
    """Stage and partition of what is launched; status, and adapter or reason, of what has ended."""
    return [
        (each.stage, each.partition) if isinstance(each, Launch) else (each.status, each.adapter or each.reason)
        for each in actions
    ]


@pytest.mark.parametrize(
    ("present", "runs", "expected"),
    [
        # Both preparations start at once, and what is prepared already is not run again.
        (NOTHING, {}, [(Stage.PREPARE_DATASET, DATASET), (Stage.PREPARE_RECIPE, RECIPE)]),
        (Present(done=frozenset({Stage.PREPARE_DATASET})), {}, [(Stage.PREPARE_RECIPE, RECIPE)]),
        # Training waits for both.
        (NOTHING, {"prepare_dataset": ACTIVE, "prepare_recipe": ACTIVE}, []),
        (READY, {"prepare_dataset": SUCCEEDED, "prepare_recipe": SUCCEEDED}, [(Stage.TRAIN_PAIR, PAIR)]),
        # An adapter that is there ends the submission without any run.
        (Present(done=BOTH, adapter=ADAPTER), {}, [(SubmissionStatus.ACCEPTED, ADAPTER)]),
        # What a recipe exports is made before its accepted submission ends, and however that ends it is accepted.
        (ACCEPTED, {"train_pair": SUCCEEDED}, [(Stage.EXPORT_PAIR, PAIR)]),
        (ACCEPTED, {"export_pair": ACTIVE}, []),
        *((ACCEPTED, {"export_pair": each}, [(SubmissionStatus.ACCEPTED, ADAPTER)]) for each in ENDED),
        # A rejected candidate is a result and no failure.
        (REJECTED, {"train_pair": FAILED}, [(SubmissionStatus.REJECTED, "benchmark_regression: 5 points")]),
        # Records that cannot be read end the submission with the reason.
        (Present(done=frozenset(), problem="it was altered"), {}, [(SubmissionStatus.FAILED, "it was altered")]),
        # A held dataset launches nothing, fails nothing, and goes on after its approval.
        (HELD, {"prepare_dataset": FAILED}, []),
        (Present(done=BOTH, held="look"), {"prepare_dataset": FAILED, "prepare_recipe": SUCCEEDED}, []),
        (READY, {"prepare_dataset": FAILED, "prepare_recipe": SUCCEEDED}, [(Stage.TRAIN_PAIR, PAIR)]),
    ],
)
def test_what_is_there_and_what_ran_decide_what_is_launched_and_what_has_ended(present, runs, expected) -> None:
    actions = step(present, **runs)
    assert told(actions) == expected
    assert all(each.trains == (each.stage is Stage.TRAIN_PAIR) for each in actions if isinstance(each, Launch))


@pytest.mark.parametrize(
    ("present", "runs", "status", "words"),
    [
        # A failed stage fails the submission and names the stage.
        *((NOTHING, {str(each): FAILED}, "failed", str(each)) for each in Stage),
        # A run that succeeded without its artifact is not launched for ever.
        (Present(done=frozenset({Stage.PREPARE_RECIPE})), {"prepare_dataset": SUCCEEDED}, "failed", "prepare_dataset"),
        (Present(done=BOTH), {"train_pair": CANCELLED}, "cancelled", "train_pair"),
        # What fails beside a held dataset still fails the submission.
        (HELD, {"prepare_recipe": FAILED}, "failed", "prepare_recipe"),
    ],
)
def test_a_run_that_ended_without_its_result_ends_the_submission_and_is_named(present, runs, status, words) -> None:
    (action,) = step(present, **runs)
    assert action.status == status
    assert words in action.reason


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
        # A tick that is repeated before the run is there asks for the same one.
        assert cut_off(present, stage, again) == [action]
        keys.append(action.run_key)
    assert len(set(keys)) == 3
    (end,) = cut_off(present, stage, MOST_AGAIN)
    assert end.status is SubmissionStatus.FAILED
    assert stage in end.reason


def test_what_a_cut_off_run_had_made_is_not_made_again_and_a_rejection_not_recorded_is_judged_once_more() -> None:
    (action,) = cut_off(Present(done=BOTH), Stage.PREPARE_DATASET, 0)
    assert (action.stage, action.again) == (Stage.TRAIN_PAIR, 0)
    (end,) = cut_off(Present(done=BOTH | {Stage.TRAIN_PAIR}, adapter=ADAPTER), Stage.TRAIN_PAIR, 0)
    assert end.status is SubmissionStatus.ACCEPTED
    (action,) = cut_off(REJECTED, Stage.TRAIN_PAIR, 0)
    assert isinstance(action, Launch)
    (end,) = cut_off(REJECTED, Stage.TRAIN_PAIR, MOST_AGAIN)
    assert end.status is SubmissionStatus.REJECTED


@given(
    done=st.frozensets(st.sampled_from([Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE])),
    runs=st.dictionaries(st.sampled_from(list(Stage)), st.sampled_from(list(RunState))),
    adapter=st.sampled_from(["", "a/adapter/f"]),
    rejection=st.sampled_from(["", "gate"]),
    held=st.sampled_from(["", "look"]),
)
def test_a_stage_is_launched_only_once_and_never_before_its_inputs(done, runs, adapter, rejection, held) -> None:
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


@pytest.mark.parametrize("pair", [RunState.NONE, CANCELLED, FAILED, RunState.CUT_OFF])
def test_a_paused_submission_launches_nothing_and_does_not_end_by_the_runs_that_the_pause_stopped(pair) -> None:
    assert step(Present(done=BOTH), train_pair=pair) != []
    for present in (Present(done=BOTH), Present(done=frozenset()), Present(done=BOTH, problem="the price was raised")):
        assert step(present, paused=True, train_pair=pair) == []
    trials = Present(done=BOTH, trials=("a", "b"))
    assert plan([Wanted(submission=SUBMISSION, present=trials, runs={}, trial_runs={"a": pair}, paused=True)]) == []


def test_what_was_finished_before_the_stop_of_a_pause_arrived_is_finished() -> None:
    for present, run, status in (
        (Present(done=BOTH, adapter=ADAPTER), CANCELLED, SubmissionStatus.ACCEPTED),
        (Present(done=BOTH, ungated=ADAPTER), CANCELLED, SubmissionStatus.UNGATED),
        (REJECTED, SUCCEEDED, SubmissionStatus.REJECTED),
    ):
        assert [each.status for each in step(present, paused=True, train_pair=run)] == [status]
    # The step that records why it was rejected was stopped; it is taken once it is resumed.
    assert step(REJECTED, paused=True, train_pair=FAILED) == []


def test_a_launch_after_a_pause_has_a_key_of_its_own_and_a_tick_that_is_repeated_the_same() -> None:
    keys = []
    for resumed in (0, 1, 1, 2):
        (launch,) = plan([Wanted(submission=SUBMISSION, present=Present(done=BOTH), runs={}, resumed=resumed)])
        keys.append(launch.run_key)
    first = f"{SUBMISSION.id}:train_pair"
    assert keys == [first, f"{first}:resumed-1", f"{first}:resumed-1", f"{first}:resumed-2"]
