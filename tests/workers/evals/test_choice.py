"""Which weights a suite chooses, by a rule that anybody can apply again to the report's own samples."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ft_assets.workers.evals.evidence import Chosen
from ft_assets.workers.evals.selection_rule import SuiteChoice, Weighed, chosen_weights, require_scores
from ft_assets.workers.training.kept_weights import Weights, stored_weights

shares = st.integers(0, 4).map(lambda hits: hits / 4)


def choice(*weights: tuple[int, float | None, float | None]) -> SuiteChoice:
    """From (step, score, validation loss)."""
    weighed = tuple(Weighed(step=step, score=score, validation_loss=loss) for step, score, loss in weights)
    return SuiteChoice(suite="dev.v1", metric="acc", n=4, weights=weighed)


def test_the_highest_score_wins_and_of_equals_the_lower_loss_and_then_the_later_step() -> None:
    assert choice((3, 0.75, 9.0), (6, 0.5, 1.0), (9, 0.5, 0.5)).best.step == 3
    assert choice((3, 0.75, 1.0), (6, 0.75, 2.0), (9, 0.5, 0.5)).best.step == 3
    assert choice((3, 0.75, 2.0), (6, 0.75, 2.0), (9, 0.5, 0.5)).best.step == 6
    assert choice((3, 0.75, 2.0), (9, 0.75, None)).best.step == 3, "a loss that nobody measured is no lower one"


@given(st.lists(st.tuples(st.none() | shares, st.none() | st.floats(0, 3)), min_size=1, max_size=8))
def test_weights_without_a_score_are_never_chosen_and_nothing_beats_what_is(
    found: list[tuple[float | None, float | None]],
) -> None:
    weights = [(3 * place, *each) for place, each in enumerate(found, start=1)]
    if all(score is None for score, _ in found):
        with pytest.raises(ValidationError, match="no weights to choose from"):
            choice(*weights)
        return
    best = choice(*weights).best
    assert best.score == max(score for score, _ in found if score is not None)
    equals = [loss for score, loss in found if score == best.score and loss is not None]
    assert best.validation_loss == min(equals, default=None)


@pytest.mark.parametrize("score", [math.nan, math.inf, 1.5, -0.1])
def test_a_score_that_is_no_share_is_no_score(score: float) -> None:
    with pytest.raises(ValidationError):
        Weighed(step=1, score=score, validation_loss=None)


def test_a_report_cannot_say_that_others_won() -> None:
    made = choice((3, 0.75, 1.0), (9, 0.5, 2.0))
    assert Chosen(step=3, steps=9, by=made).in_words == "after step 3 of 9, by dev.v1 (acc 75.0% of 4 items)"
    with pytest.raises(ValidationError, match="choice of weights contradicts the scores"):
        Chosen(step=9, steps=9, by=made)


def test_a_choice_is_about_a_checkpoints_own_weights_and_losses_or_about_nothing() -> None:
    facts = {"steps": 9, "validation_loss": [[3, 1.0], [6, 3.0], [9, 2.0]], "kept": [[3, 1.0]]}
    stored = stored_weights(facts)
    assert stored == [Weights(prefix="kept/000003/", step=3, loss=1.0), Weights(prefix="final/", step=9, loss=2.0)]
    assert chosen_weights(stored, choice((3, 0.75, 1.0), (9, 0.5, 2.0))).prefix == "kept/000003/"
    others = [((3, 0.75, 1.0),), ((3, 0.75, 1.5), (9, 0.5, 2.0)), ((3, 0.75, 1.0), (6, 0.5, 3.0), (9, 0.5, 2.0))]
    for weights in others:
        with pytest.raises(ValueError, match="weights or validation losses differ"):
            chosen_weights(stored, choice(*weights))
    with pytest.raises(ValueError, match="no record of how the suite chose"):
        chosen_weights(stored, None)


def test_samples_that_do_not_give_the_scores_that_stand_there_are_found() -> None:
    made = choice((3, 0.75, 1.0), (6, None, 1.5), (9, 0.5, 2.0))
    right: dict[str, Any] = {"score_3": [1.0, 1.0, 1.0, 0.0], "score_9": [1.0, 0.0, 1.0, 0.0]}
    require_scores(made, right)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"score_3": [1.0, 1.0, 0.0, 0.0]}, "a different score for the weights after step 3"),
        ({"score_3": [1.0, 1.0, 1.0]}, "the weights after step 3 do not have exactly one score per item"),
        ({"score_3": [1.0, 1.0, 2.0, -1.0]}, "the weights after step 3 do not have exactly one score per item"),
        ({"score_3": [1.0, 1.0, math.nan, 0.0]}, "the weights after step 3 do not have exactly one score per item"),
        ({"score_6": [1.0, 1.0, 1.0, 1.0]}, "the weights after step 6 do not have exactly one score per item"),
        ({"score_9": None}, "the weights after step 9 do not have exactly one score per item"),
    ]
    for change, expected in wrong:
        columns = {name: values for name, values in {**right, **change}.items() if values is not None}
        with pytest.raises(ValueError, match=expected):
            require_scores(made, columns)
