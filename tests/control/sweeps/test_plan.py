"""A submission of a sweep: the trials first, each once, and the pair when all of them have ended."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.submissions.plan import MOST_AGAIN, Finish, Launch, Present, RunState, Stage, Wanted, plan
from ft_assets.records.submissions import SubmissionStatus
from tests.made import made_submission

SUBMISSION = made_submission(recipe="rates.v1")
BOTH = frozenset({Stage.PREPARE_DATASET, Stage.PREPARE_RECIPE})
A, B = "rates-t01.v1", "rates-t02.v1"


def step(*trials: str, done: frozenset[Stage] = BOTH, problem: str = "", **runs: RunState) -> list[Launch | Finish]:
    by_trial = {"a": A, "b": B}
    present = Present(done=done, trials=trials, problem=problem)
    states = {by_trial[name]: state for name, state in runs.items()}
    return plan([Wanted(submission=SUBMISSION, present=present, runs={}, trial_runs=states)])


def launched(actions: list[Launch | Finish]) -> list[str]:
    return [action.partition for action in actions if isinstance(action, Launch)]


def test_the_trials_wait_for_dataset_and_base_then_start_together_and_the_pair_waits_for_all_of_them() -> None:
    assert launched(step(A, B, done=frozenset())) == ["acme.support.v1", "rates.v1"]
    actions = step(A, B)
    assert launched(actions) == [f"acme.support.v1|{A}", f"acme.support.v1|{B}"]
    keys = [action.run_key for action in actions if isinstance(action, Launch)]
    assert keys == [f"{'0' * 16}:train_trial:{A}", f"{'0' * 16}:train_trial:{B}"]
    assert step(B, a=RunState.SUCCEEDED, b=RunState.ACTIVE) == []
    actions = step(a=RunState.SUCCEEDED, b=RunState.FAILED)
    assert launched(actions) == ["acme.support.v1|rates.v1"]


def test_a_trial_that_was_cut_off_starts_again_beside_the_others_and_fails_the_sweep_only_in_the_end() -> None:
    (action,) = step(A, B, a=RunState.CUT_OFF, b=RunState.ACTIVE)
    assert (action.trial, action.run_key) == (A, f"{'0' * 16}:train_trial:{A}:again-1")
    present = Present(done=BOTH, trials=(A,))
    cut_off = Wanted(
        submission=SUBMISSION, present=present, runs={}, trial_runs={A: RunState.CUT_OFF}, again={A: MOST_AGAIN}
    )
    (ended,) = plan([cut_off])
    assert ended.status is SubmissionStatus.FAILED


def test_a_trial_that_failed_was_cancelled_or_may_not_start_ends_the_sweep_when_the_others_have_ended() -> None:
    assert step(A, B, a=RunState.FAILED, b=RunState.ACTIVE) == []
    (action,) = step(A, a=RunState.FAILED, b=RunState.SUCCEEDED)
    assert action.status is SubmissionStatus.FAILED
    assert A in action.reason
    assert step(A, B, a=RunState.CANCELLED, b=RunState.ACTIVE) == []
    (action,) = step(A, B, a=RunState.CANCELLED)
    assert action.status is SubmissionStatus.CANCELLED
    assert "submit the sweep again to continue it" in action.reason
    (action,) = step(A, B, problem="together 30 GPU-hours")
    assert action.reason == "together 30 GPU-hours"
    assert step(A, B, problem="together 30 GPU-hours", a=RunState.ACTIVE) == []


@given(
    trials=st.lists(st.sampled_from([A, B, "rates-t03.v1"]), unique=True),
    runs=st.dictionaries(st.sampled_from([A, B, "rates-t03.v1"]), st.sampled_from(list(RunState))),
    pair=st.sampled_from(list(RunState)),
    problem=st.sampled_from(["", "too much"]),
)
def test_no_trial_starts_twice_the_pair_never_before_them_and_nothing_hangs(trials, runs, pair, problem) -> None:
    present = Present(done=BOTH, trials=tuple(trials), problem=problem)
    # The pair is only ever launched once no trial is waited for.
    states = {} if trials else {Stage.TRAIN_PAIR: pair}
    actions = plan([Wanted(submission=SUBMISSION, present=present, runs=states, trial_runs=runs)])
    starts = [action for action in actions if isinstance(action, Launch)]
    finished = [action for action in actions if isinstance(action, Finish)]
    assert len(finished) <= 1
    assert not (starts and finished)
    for start in starts:
        if trials:
            assert start.stage is Stage.TRAIN_TRIAL
            assert start.trial in trials
            assert runs.get(start.trial, RunState.NONE) in (RunState.NONE, RunState.CUT_OFF)
        else:
            assert start.stage is Stage.TRAIN_PAIR
    assert len({start.partition for start in starts}) == len(starts)
    if not actions:
        assert RunState.ACTIVE in (*runs.values(), *states.values())


@pytest.mark.parametrize("state", [RunState.SUCCEEDED, RunState.FAILED])
def test_what_remains_of_a_decided_sweep_is_planned_like_any_pair(state: RunState) -> None:
    present = Present(done=frozenset({*BOTH, Stage.TRAIN_PAIR}), adapter="acme/adapter/f")
    (action,) = plan([Wanted(submission=SUBMISSION, present=present, runs={}, trial_runs={A: state})])
    assert action.status is SubmissionStatus.ACCEPTED
