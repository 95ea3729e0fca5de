"""Room in a queue is what it could reserve by Kueue's rules, without anybody giving way by priority."""

from collections.abc import Mapping
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ft_resources.kubernetes.room import Room
from tests.cluster.kueue_quota import QuotaTree

GPU = "nvidia.com/gpu"
PLACE = ("h100", GPU)


def node(name: str, nominal: int, used: int = 0, *, waiting: int = 0, **spec: Any) -> dict[str, Any]:
    limits = {key: spec.pop(key) for key in ("borrowingLimit", "lendingLimit") if spec.get(key) is not None}
    quota = {"name": GPU, "nominalQuota": str(nominal), **{key: str(value) for key, value in limits.items()}}
    group = {"coveredResources": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}
    reserved = [{"name": "h100", "resources": [{"name": GPU, "total": str(used)}]}]
    return {
        "metadata": {"name": name},
        "spec": {"resourceGroups": [group], **{key: value for key, value in spec.items() if value is not None}},
        "status": {"flavorsReservation": reserved, "pendingWorkloads": waiting},
    }


def gpus(room: Room, queue: str, held: Mapping[tuple[str, str], float] | None = None) -> int:
    """The most GPUs that fit."""
    return max(count for count in range(200) if room.fits(queue, ["h100"], {GPU: count}, held or {}))


def tier_room(*, premium_used: int = 0, free_used: int = 0) -> Room:
    """16 GPUs: 8 reserved for premium and 4 for free, whose one tenant each has no quota of its own."""
    queues = [
        node("gold", 0, premium_used, cohortName="premium"),
        node("poor", 0, free_used, cohortName="free", waiting=3),
    ]
    cohorts = [node("ft", 4), node("premium", 8, parentName="ft"), node("free", 4, parentName="ft", borrowingLimit=4)]
    return Room(queues, cohorts)


@pytest.mark.parametrize(
    ("used", "gold", "poor"),
    [
        # Nobody: free may borrow four.
        ((0, 0), 16, 8),
        # What free borrowed of premium's own is premium's.
        ((0, 8), 8, 0),
        ((4, 8), 4, 0),
        # What premium borrowed of free's own is free's.
        ((16, 0), 0, 4),
        ((14, 0), 2, 4),
    ],
)
def test_room_is_what_is_idle_or_lent_of_ones_own(used: tuple[int, int], gold: int, poor: int) -> None:
    room = tier_room(premium_used=used[0], free_used=used[1])
    assert (gpus(room, "gold"), gpus(room, "poor")) == (gold, poor)


def test_what_a_training_holds_is_room_for_itself() -> None:
    assert gpus(tier_room(premium_used=14), "gold", {PLACE: 6.0}) == 8


def test_all_that_wait_in_queues_that_share_quota_count() -> None:
    alone = node("alone", 4, waiting=2)
    room = Room([alone, node("a", 1, cohortName="c"), node("b", 1, cohortName="c", waiting=5)], [])
    assert [room.waiting(each, ["h100"], [GPU]) for each in ("alone", "a", "b", "nowhere")] == [2, 5, 5, 0]


def test_cohorts_in_a_circle_end_somewhere() -> None:
    room = Room([node("a", 2, cohortName="b")], [node("b", 1, parentName="c"), node("c", 1, parentName="b")])
    assert gpus(room, "a") == 4
    assert gpus(Room([node("a", 2, cohortName="b")], [node("b", 1, parentName="b")]), "a") == 3


def test_who_waits_for_what_its_own_limits_leave_it_does_not_count() -> None:
    full = node("full", 2, 6, cohortName="c", waiting=5, borrowingLimit=4)
    assert Room([node("a", 8, cohortName="c"), full], []).waiting("a", ["h100"], [GPU]) == 0
    less = node("full", 2, 5, cohortName="c", waiting=5, borrowingLimit=4)
    assert Room([node("a", 8, cohortName="c"), less], []).waiting("a", ["h100"], [GPU]) == 5


def test_an_older_kueue_calls_a_cohort_by_another_name() -> None:
    room = Room([node("a", 2, cohort="c"), node("b", 3, cohort="c")], [])
    assert gpus(room, "a") == 5


def test_resources_that_the_queue_does_not_count_are_not_asked_and_a_flavour_must_have_all_others() -> None:
    room = Room([node("a", 2)], [])
    assert room.fits("a", ["h100"], {GPU: 2, "rdma/hca": 8}, {})
    assert not room.fits("a", ["other"], {GPU: 1}, {})
    assert room.flavours("a") == [["h100"]]
    assert room.flavours("nowhere") == []
    assert not room.fits("nowhere", ["h100"], {GPU: 1}, {})


limits = st.none() | st.integers(0, 8)


@given(
    st.lists(st.tuples(st.integers(0, 8), limits, limits, st.integers(0, 8)), min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 8), limits, limits), min_size=2, max_size=2),
    st.data(),
)
def test_what_kueue_would_reserve_without_preemption_is_room(
    queues: list[tuple[int, int | None, int | None, int]],
    cohorts: list[tuple[int, int | None, int | None]],
    data: st.DataObject,
) -> None:
    """Against the rules by which the cluster of the tests decides."""
    above = [data.draw(st.sampled_from([None, "inner", "outer"])) for _ in queues]
    made = [
        node(
            f"q{number}",
            nominal,
            used,
            cohortName=parent,
            **({"borrowingLimit": borrow, "lendingLimit": lend} if parent else {}),
        )
        for number, ((nominal, borrow, lend, used), parent) in enumerate(zip(queues, above, strict=True))
    ]
    inner, outer = cohorts
    groups = [
        node("inner", inner[0], parentName="outer", borrowingLimit=inner[1], lendingLimit=inner[2]),
        node("outer", outer[0]),
    ]
    tree, room = QuotaTree(made, groups), Room(made, groups)
    for number, each in enumerate(queues):
        tree.use(f"q{number}", {PLACE: each[3]})
    for number in range(len(queues)):
        for amount in range(1, 20):
            if tree.fits(f"q{number}", {PLACE: amount}):
                assert room.fits(f"q{number}", ["h100"], {GPU: amount}, {})
