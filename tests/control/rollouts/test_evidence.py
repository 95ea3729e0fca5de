"""Evidence: what counts as good, which outcomes are compared, and what is said of them."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.rollouts.evidence import differences, good, weigh
from ft_resources.artifacts import InputRef
from tests.control.rollouts.made import BEGIN, outcome, traffic

CANDIDATE = InputRef(address="acme/adapter/c", digest="c" * 64)
INCUMBENT = InputRef(address="acme/adapter/i", digest="i" * 64)
OUTCOMES = st.lists(st.tuples(st.sampled_from(("candidate", "incumbent")), st.floats(0, 1)), max_size=60)


@pytest.mark.parametrize(
    ("kind", "value", "is_good"),
    [
        ("thumbs", 1.0, 1.0),
        ("judge", 0.7, 0.7),
        ("latency", 2.0, 1.0),
        ("latency", 2.1, 0.0),
        ("refusal", 1.0, 0.0),
        ("format", 1.0, 1.0),
    ],
)
def test_each_kind_says_what_is_good(kind: str, value: float, is_good: float) -> None:
    assert good(outcome(CANDIDATE, value, BEGIN, kind=kind), 2.0) == is_good


def test_blocks_are_those_of_the_docstring() -> None:
    seen = [("candidate", 1), ("incumbent", 0), ("incumbent", 1), ("candidate", 0), ("candidate", 1), ("incumbent", 1)]
    assert differences(seen) == [1, -1, 0]


def test_a_candidate_of_one_percent_is_compared_with_the_mean_of_what_came_meanwhile() -> None:
    assert differences([*[("incumbent", 1.0)] * 30, *[("incumbent", 0.0)] * 10, ("candidate", 1.0)]) == [0.25]


@given(OUTCOMES, st.randoms(use_true_random=False))
def test_where_a_block_ends_depends_on_whose_outcomes_come_and_not_on_what_they_say(outcomes, random) -> None:
    changed = [(arm, random.random()) for arm, _ in outcomes]
    found = differences(outcomes)
    assert len(found) == len(differences(changed))
    assert all(-1 <= each <= 1 for each in found)


def test_an_hour_that_is_bad_for_both_speaks_against_neither() -> None:
    # The candidate has most of its traffic in the bad hour: its mean is lower by far, and each difference is nothing.
    good_hour = [*[("incumbent", 1.0)] * 99, ("candidate", 1.0)] * 2
    bad_hour = [*[("incumbent", 0.0)] * 3, ("candidate", 0.0)] * 40
    assert set(differences([*good_hour, *bad_hour])) == {0.0}


def test_evidence_tells_worse_from_as_good_from_open() -> None:
    margins = {"thumbs": 0.1}

    def of(good: tuple[float, float], n: int):
        seen = traffic(CANDIDATE, INCUMBENT, good=good, n=n, begin=BEGIN)
        arms = [("candidate" if each.model.endswith("c" * 16) else "incumbent", each) for each in seen]
        return weigh(arms, margins=margins, latency_limit_s=None, stage_at=(BEGIN + timedelta(seconds=5)).isoformat())[
            0
        ]

    worse, same, early = of((0.6, 0.9), 200), of((0.9, 0.9), 200), of((0.6, 0.9), 10)
    assert worse.worse
    assert not worse.as_good
    assert same.as_good
    assert not same.worse
    assert not early.worse
    assert not early.as_good
    assert (early.candidate, early.incumbent, early.in_stage) == (10, 10, 5)
    assert early.sentence.startswith("thumbs: 0.600 good of 10, incumbent 0.900 of 10; the difference is within -0.")


def test_without_outcomes_nothing_is_shown() -> None:
    (found,) = weigh([], margins={"judge": 0.05}, latency_limit_s=None, stage_at="")
    assert not found.worse
    assert not found.as_good
    assert found.sentence == "judge: 0 outcomes of the candidate, 0 of the incumbent"
