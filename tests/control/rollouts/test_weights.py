"""Which adapter answers a user: by weight, and always the same while the weight rises."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ft_assets.control.rollouts.weights import choose

USERS = st.text(max_size=30)
PERCENT = st.integers(1, 99)


def split(candidate: str, weight: int) -> list[tuple[str, int]]:
    return [(candidate, weight), ("incumbent", 100 - weight)]


@given(USERS, PERCENT, PERCENT)
def test_raising_the_weight_never_takes_the_candidate_from_a_user(user: str, one: int, other: int) -> None:
    low, high = sorted((one, other))
    if choose(split("candidate", low), user) == "candidate":
        assert choose(split("candidate", high), user) == "candidate"


@given(USERS, PERCENT)
def test_a_user_is_answered_by_the_same_adapter_each_time(user: str, weight: int) -> None:
    assert choose(split("candidate", weight), user) == choose(split("candidate", weight), user)


@given(USERS)
def test_without_a_rollout_everybody_has_production(user: str) -> None:
    assert choose([("production", 100)], user) == "production"
    assert choose(split("candidate", 0), user) == "incumbent"


@pytest.mark.parametrize("weight", [1, 5, 25, 50])
def test_the_candidate_has_its_share_of_users(weight: int) -> None:
    chosen = [choose(split("candidate", weight), f"user {number}") for number in range(20_000)]
    assert chosen.count("candidate") / len(chosen) == pytest.approx(weight / 100, abs=0.01)


def test_another_candidate_is_tried_on_other_users() -> None:
    users = [f"user {number}" for number in range(10_000)]
    first = {user for user in users if choose(split("first", 10), user) == "first"}
    second = {user for user in users if choose(split("second", 10), user) == "second"}
    assert len(first & second) / len(first) < 0.15
