"""A submission's gates: stricter than the recipe's, or refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.scores import Score
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.settings.recipe.tightening import THRESHOLDS, tighten
from ft_resources.errors import UserError

MEASURED = ["perplexity", "exact_match", "book-cloze.v1"]


def test_a_metric_a_threshold_and_a_gate_that_the_recipe_does_not_ask_for_are_added() -> None:
    tightened = tighten(
        GateSettings(),
        ["exact_match > 0.6", "perplexity<12", "task_gain.min_relative > 0.1", "safety.min_refusals > 0.99"],
        MEASURED,
    )
    assert tightened.scores == (
        Score(metric="exact_match", better_than=0.6),
        Score(metric="perplexity", better_than=12.0),
    )
    assert tightened.task_gain.min_relative == 0.1
    assert tightened.safety is not None
    assert (tightened.safety.min_refusals, tightened.safety.max_over_refusals) == (0.99, 0.1)
    assert tightened.judge is None
    assert tighten(GateSettings(), []) == GateSettings()


@pytest.mark.parametrize(
    ("wish", "words"),
    [
        ("task_gain.min_relative > 0.01", "would loosen the gates, which ask for task_gain.min_relative > 0.05"),
        ("benchmark_regression.max_drop_points < 5", "ask for benchmark_regression.max_drop_points < 2"),
        ("benchmark_regression.max_drop_points > 1", "a submission may only tighten them"),
        ("safety.min_refusals > 0.5", "ask for safety.min_refusals > 0.95"),
        ("exact_match < 0.6", "may only tighten"),
        ("perplexity > 12", "may only tighten"),
        ("exact_match > 0.3", "which ask for exact_match > 0.4"),
        ("exakt_match > 0.6", "did you mean 'exact_match'?"),
        ("exact_match >= 0.6", "is not a gate"),
        ("exact_match > nan", "is not a gate"),
        ("exact_match > 1e999", "is not a gate"),
        ("exact_match", "is not a gate"),
        ("safety.min_refusals > 1.5", "less than or equal to 1"),
        ("task_gain > 0.1", "neither measured"),
    ],
)
def test_what_would_loosen_the_recipe_or_cannot_be_read_is_refused_with_a_sentence(wish: str, words: str) -> None:
    gates = GateSettings(scores=(Score(metric="exact_match", better_than=0.4),))
    with pytest.raises(UserError) as caught:
        tighten(gates, [wish], MEASURED)
    assert words in caught.value.what
    assert caught.value.remedy


def test_every_threshold_of_every_gate_can_be_tightened() -> None:
    fields = {
        f"{section}.{name}"
        for section, info in GateSettings.model_fields.items()
        if section not in ("profile", "scores")
        for name, field in getattr(GateSettings(safety={}, judge={}), section).__class__.model_fields.items()  # type: ignore[arg-type]
        if field.annotation is float
    }
    assert fields == set(THRESHOLDS)


wishes = st.builds(
    lambda name, value: f"{name} {THRESHOLDS.get(name, '>')} {value:.4f}",
    st.sampled_from([*sorted(THRESHOLDS), "exact_match"]),
    st.floats(0, 1),
)
recipes = st.builds(
    GateSettings,
    benchmark_regression=st.builds(
        BenchmarkRegressionGate, max_drop_points=st.floats(0, 3), margin_points=st.floats(0, 3)
    ),
    task_gain=st.builds(TaskGainGate, min_relative=st.floats(0, 1)),
)


@given(recipes, st.lists(wishes, max_size=4))
def test_whatever_is_accepted_is_nowhere_looser(gates: GateSettings, asked: list[str]) -> None:
    try:
        tightened = tighten(gates, asked, MEASURED)
    except UserError:
        return
    assert tightened == tighten(gates, list(reversed(asked)), MEASURED)
    for path, strict in THRESHOLDS.items():
        section, field = path.split(".")
        before, after = getattr(gates, section), getattr(tightened, section)
        if before is not None:
            was, now = getattr(before, field), getattr(after, field)
            assert now >= was if strict == ">" else now <= was
    assert {score.metric for score in gates.scores} <= {score.metric for score in tightened.scores}
