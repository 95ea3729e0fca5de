"""The winner is chosen on validation, once, from what the store holds."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control import identity
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.sweeps.trial_states import decide, missing_trials, sweep_decision
from ft_assets.records.sweep_decision import Decision, SweepFailed, SweepUndecided, TrialResult, all_decisions, choose
from ft_resources.errors import MissingInput, UserError
from ft_resources.outcomes import Outcome
from tests.control.submissions.estimate_world import DATASET, World, train_rows
from tests.control.sweeps.made import SWEEP, TRIALS, ended, make_sweep, trained

losses = st.one_of(st.none(), st.floats(0, 10), st.sampled_from([0.5, 1.0]))


def results(*values: tuple[float | None, bool]) -> list[TrialResult]:
    return [
        TrialResult(key=f"a-t{n}.v1", number=n, values={}, loss=loss, ending="" if done else "diverged")
        for n, (loss, done) in enumerate(values, start=1)
    ]


@given(st.lists(st.tuples(losses, st.booleans()), max_size=25), st.randoms())
def test_the_lowest_loss_of_a_checkpoint_wins_and_the_first_of_equals(values, random) -> None:
    trials = results(*values)
    number = choose(trials)
    able = [(trial.loss, trial.number) for trial in trials if not trial.ending and trial.loss is not None]
    assert number == (min(able)[1] if able else None)
    random.shuffle(trials)
    assert choose(trials) == number


def test_until_all_trials_have_ended_the_walk_names_those_that_are_missing(sweep: World) -> None:
    trained(sweep, TRIALS[0], 2.0)
    with pytest.raises(SweepUndecided) as raised:
        identity.checkpoint_request(sweep.artifacts, DATASET, SWEEP)
    assert isinstance(raised.value, MissingInput)
    assert "rates-t02.v1, rates-t03.v1" in raised.value.what
    assert "rates-t01.v1" not in raised.value.what
    assert f"ft run {DATASET} {SWEEP}" in raised.value.remedy
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    with pytest.raises(SweepUndecided):
        decide(sweep.artifacts, DATASET, SWEEP)
    assert list(all_decisions(sweep.store)) == []


def test_the_sweeps_checkpoint_is_the_winners_and_its_holdout_is_scored_under_its_own_key(sweep: World) -> None:
    for trial, loss in zip(TRIALS, (2.0, 1.5, 1.7), strict=True):
        trained(sweep, trial, 9.0, loss)
    decision = decide(sweep.artifacts, DATASET, SWEEP)
    assert decision.winner == 2
    won, asked = (identity.checkpoint_request(sweep.artifacts, DATASET, key) for key in (TRIALS[1], SWEEP))
    assert asked.address == won.address
    assert identity.checkpoint(sweep.artifacts, DATASET, SWEEP).facts["validation_loss"][-1] == [20, 1.5]
    report = identity.eval_report_request(sweep.artifacts, DATASET, SWEEP)
    assert report.label == f"{DATASET}|{SWEEP}"
    assert report.inputs["checkpoint"].address == str(won.address)
    for request in (identity.eval_report_request, identity.adapter_request):
        with pytest.raises(UserError, match="only a sweep's winner is scored on the holdout"):
            request(sweep.artifacts, DATASET, TRIALS[1])


def test_a_loss_from_before_the_end_never_stands_for_a_final_one_that_is_no_number(sweep: World) -> None:
    for trial, final in zip(TRIALS, (None, 1.5, 1.7), strict=True):
        trained(sweep, trial, 1.0, final)
    decision = decide(sweep.artifacts, DATASET, SWEEP)
    assert [trial.loss for trial in decision.trials] == [None, 1.5, 1.7]
    assert decision.winner == 2


def test_a_trial_that_comes_too_late_changes_nothing(sweep: World) -> None:
    ended(sweep, TRIALS[0], Outcome.DIVERGED)
    trained(sweep, TRIALS[1], 2.0)
    trained(sweep, TRIALS[2], 3.0)
    first = decide(sweep.artifacts, DATASET, SWEEP)
    trained(sweep, TRIALS[0], 0.1)
    assert decide(sweep.artifacts, DATASET, SWEEP) == first == sweep_decision(sweep.artifacts, DATASET, SWEEP)
    assert (first.winner, first.trials[0].ending) == (2, "diverged")
    # What a row says stays with the attempt.
    assert "4111" not in first.model_dump_json()
    assert missing_trials(sweep.artifacts, DATASET, SWEEP) == ()


@pytest.mark.parametrize(
    ("outcome", "how", "final"),
    [
        (Outcome.DIVERGED, {}, True),
        (Outcome.BAD_DATA, {}, True),
        (Outcome.OUT_OF_MEMORY, {}, False),
        (Outcome.OUT_OF_MEMORY, {"divisor": 2}, True),
        (Outcome.OUT_OF_MEMORY, {"divisor": 2, "larger": "H100"}, False),
        (Outcome.USER_ERROR, {"error": "BadRecipe"}, True),
        (Outcome.USER_ERROR, {"error": "CorruptArtifact"}, False),
        (Outcome.PREEMPTED, {}, False),
        (Outcome.CANCELLED, {}, False),
        (Outcome.PLATFORM_ERROR, {}, False),
    ],
)
def test_only_an_ending_that_would_come_again_ends_a_trial(world, outcome, how, final) -> None:
    make_sweep(world)
    ended(world, TRIALS[1], outcome, **how)
    assert (TRIALS[1] in missing_trials(world.artifacts, DATASET, SWEEP)) is not final


def test_a_trial_that_is_tried_again_is_waited_for(sweep: World) -> None:
    ended(sweep, TRIALS[1], Outcome.DIVERGED)
    again = ended(sweep, TRIALS[1], Outcome.DIVERGED)
    sweep.store.delete(f"{again.path}/outcome.json")
    assert TRIALS[1] in missing_trials(sweep.artifacts, DATASET, SWEEP)


def test_when_no_trial_can_win_the_error_lists_how_each_ended(sweep: World) -> None:
    ended(sweep, TRIALS[0], Outcome.DIVERGED)
    ended(sweep, TRIALS[1], Outcome.BAD_DATA)
    trained(sweep, TRIALS[2])
    decision = decide(sweep.artifacts, DATASET, SWEEP)
    assert decision.winner is None
    with pytest.raises(SweepFailed) as raised:
        identity.checkpoint_request(sweep.artifacts, DATASET, SWEEP)
    for words in ("rates-t01.v1): diverged", "rates-t02.v1): bad_data", "rates-t03.v1): no validation loss"):
        assert words in raised.value.what
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


def test_settings_that_cannot_work_with_the_base_end_their_trial_only(world: World) -> None:
    """Which modules a base has is known only once it is there."""
    modules = {"search": "grid", "parameters": {"lora.target_modules": [["q_proj"], ["nose_proj"]]}}
    make_sweep(world, "modules.v1", sweep=modules)
    trained(world, "modules-t01.v1", 2.0)
    decision = decide(world.artifacts, DATASET, "modules.v1")
    assert [(trial.ending, trial.loss) for trial in decision.trials] == [("", 2.0), ("refused", None)]
    assert decision.winner == 1


def test_a_sweep_without_a_validation_split_is_refused_before_anything_is_packed(world: World) -> None:
    facts = {"form": "chat", "held": [], "rows": {"train": 144, "validation": 0, "holdout": 16}}
    world.make(identity.dataset_request(world.artifacts, DATASET), facts, train__parquet=train_rows())
    with pytest.raises(UserError, match="has no validation rows"):
        make_sweep(world)
    for key in (SWEEP, TRIALS[0]):
        with pytest.raises(UserError, match="has no validation rows"):
            identity.token_pack_request(world.artifacts, DATASET, key)


def test_decisions_of_one_content_and_sweep_are_one_record_below_the_tenants_prefix(sweep: World) -> None:
    for trial in TRIALS:
        trained(sweep, trial, 1.0)
    decision = decide(sweep.artifacts, DATASET, SWEEP)
    assert decision.winner == 1
    path = identity.decision_path_of(sweep.artifacts, DATASET, get_recipe(sweep.store, SWEEP))
    assert path.startswith("acme/sweeps/")
    assert Decision.get(sweep.store, path) == decision
    assert list(all_decisions(sweep.store)) == [decision]
