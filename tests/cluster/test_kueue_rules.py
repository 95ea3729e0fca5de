"""Kueue's rules for Cohorts, case by case from its documentation, without a cluster."""

from typing import Any

from tests.cluster.kueue_cycle import Ask, Cycle, Held, heads, run_cycle
from tests.cluster.kueue_quota import QuotaTree

PLACE = ("f", "gpu")


def node(name: str, gpus: int, above: str = "", *, cohort: bool = False, **more: Any) -> dict[str, Any]:
    """A ClusterQueue or a Cohort; ``borrow`` and ``lend`` are its limits, all else its preemption policies."""
    limits = {"borrow": "borrowingLimit", "lend": "lendingLimit"}
    quota = {"name": "gpu", "nominalQuota": gpus, **{limits[key]: more.pop(key) for key in list(more) if key in limits}}
    group = {"coveredResources": ["gpu"], "flavors": [{"name": "f", "resources": [quota]}]}
    parent = {"parentName" if cohort else "cohortName": above} if above else {}
    return {"metadata": {"name": name}, "spec": {**parent, "resourceGroups": [group], "preemption": more}}


def held(key: str, queue: str, gpus: int, *, priority: int = 0, since: float = 0.0) -> Held:
    return Held(key=key, queue=queue, priority=priority, since=since, usage={PLACE: gpus})


def ask(queue: str, gpus: int, *, priority: int = 0, since: float = 0.0, key: str = "new") -> Ask:
    return Ask(key=key, queue=queue, priority=priority, since=since, ways=({PLACE: gpus},))


def decide(tree: QuotaTree, running: list[Held], *asks: Ask) -> Cycle:
    for each in running:
        tree.use(each.queue, each.usage)
    before = {name: dict(queue.usage) for name, queue in {**tree.queues, **tree.cohorts}.items()}
    found = run_cycle(tree, running, heads(asks, ()))
    for key, usage in found.admitted.items():
        (own,) = [each for each in asks if each.key == key]
        tree.use(own.queue, usage, -1.0)
    after = {name: dict(queue.usage) for name, queue in {**tree.queues, **tree.cohorts}.items()}
    assert {n: {p: a for p, a in u.items() if a} for n, u in after.items()} == {
        n: {p: a for p, a in u.items() if a} for n, u in before.items()
    }
    return found


def test_a_queue_borrows_all_that_its_cohort_leaves_idle() -> None:
    tree = QuotaTree([node("a", 9, "ab"), node("b", 12, "ab")])
    assert tree.queues["a"].available(PLACE) == 21
    tree.use("b", {PLACE: 5})
    assert tree.queues["a"].available(PLACE) == 16


def test_a_borrowing_limit_caps_what_is_borrowed() -> None:
    tree = QuotaTree([node("a", 9, "ab", borrow=1), node("b", 12, "ab")])
    assert (tree.queues["a"].most(PLACE), tree.queues["b"].most(PLACE)) == (10, 21)
    tree.use("a", {PLACE: 4})
    assert tree.queues["a"].available(PLACE) == 6


def test_a_lending_limit_withholds_the_rest() -> None:
    tree = QuotaTree([node("a", 9, "ab"), node("b", 12, "ab", lend=1)])
    assert (tree.queues["a"].available(PLACE), tree.queues["b"].available(PLACE)) == (10, 21)
    tree.use("b", {PLACE: 11})
    assert tree.queues["a"].available(PLACE) == 10


def tiers(**premium: Any) -> QuotaTree:
    """Ten GPUs: four reserved for premium, six for all; a queue of premium, one of free with others beside them."""
    policies = {
        "withinClusterQueue": "LowerPriority",
        "reclaimWithinCohort": "Any",
        "borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 20},
    }
    cohorts = [
        node("root", 6, cohort=True),
        node("premium", 4, "root", cohort=True, **premium),
        node("free", 0, "root", cohort=True),
    ]
    queues = [node(f"{tier}-{one}", 0, tier, **policies) for tier in ("premium", "free") for one in "ab"]
    return QuotaTree(queues, cohorts)


def test_a_tier_shares_its_pool_and_what_nobody_reserved() -> None:
    tree = tiers(borrow=2)
    assert (tree.queues["premium-a"].most(PLACE), tree.queues["free-a"].most(PLACE)) == (6, 10)
    tree.use("free-a", {PLACE: 9})
    assert tree.queues["premium-b"].available(PLACE) == 1
    assert [tree.distance("premium-a", {PLACE: amount}) for amount in (4, 5)] == [1, 2]


def test_a_tier_takes_back_what_it_reserved_whatever_the_priority_of_the_borrower() -> None:
    running = [held("old", "free-a", 6, priority=90), held("late", "free-b", 4, priority=90, since=5)]
    found = decide(tiers(), running, ask("premium-a", 4, priority=10))
    assert found.evicted == {"late": ("InCohortReclamation", "new")}
    assert found.preempting == {"new": 1}


def test_beyond_what_it_reserved_a_tier_takes_from_lower_priorities_only() -> None:
    running = [held("own", "premium-b", 4, priority=30), held("free", "free-a", 6, priority=10)]
    assert decide(tiers(), running, ask("premium-a", 2, priority=30)).evicted == {
        "free": ("InCohortReclaimWhileBorrowing", "new")
    }
    equal = [held("own", "premium-b", 4, priority=30), held("free", "free-a", 6, priority=30)]
    assert decide(tiers(), equal, ask("premium-a", 2, priority=30)).evicted == {}


def test_work_above_the_threshold_is_safe_from_a_borrower() -> None:
    running = [held("own", "premium-b", 4, priority=30), held("kept", "free-a", 6, priority=21)]
    assert decide(tiers(), running, ask("premium-a", 2, priority=30)).evicted == {}


def test_tenants_of_one_tier_take_nothing_from_each_other_at_the_same_priority() -> None:
    running = [held("a", "premium-a", 4, priority=30), held("b", "premium-b", 6, priority=30)]
    found = decide(tiers(), running, ask("premium-a", 1, priority=30))
    assert (found.admitted, found.evicted) == ({}, {})


def test_as_few_as_possible_give_way() -> None:
    running = [
        held("one", "free-a", 1, since=3),
        held("six", "free-a", 6, since=2),
        held("three", "free-b", 3, since=1),
    ]
    assert [*decide(tiers(), running, ask("premium-a", 4, priority=30)).evicted] == ["six"]


def test_who_borrows_least_is_admitted_first_then_by_priority_then_by_age() -> None:
    running = [held("free", "free-a", 6)]
    asks = [
        ask("free-b", 4, priority=90, since=1, key="far"),
        ask("premium-a", 3, priority=10, since=2, key="near"),
        ask("premium-b", 3, priority=20, since=3, key="nearest"),
    ]
    assert [*decide(tiers(), running, *asks).admitted] == ["nearest"]


def test_who_waits_for_others_to_give_way_stays_the_first_of_its_queue() -> None:
    asks = [ask("a", 9, priority=90, key="huge"), ask("a", 3, key="preempting"), ask("b", 1, key="other")]
    assert [each.key for each in heads(asks, {"preempting"})] == ["preempting", "other"]
    assert [each.key for each in heads(asks, ())] == ["huge", "other"]


def test_nobody_gives_way_where_it_would_not_be_enough() -> None:
    running = [held("safe", "free-a", 7, priority=50), held("loose", "free-b", 3, priority=1)]
    assert decide(tiers(), running, ask("premium-a", 8, priority=30)).evicted == {}


def test_what_gives_way_already_is_counted_on_first() -> None:
    running = [held("going", "free-a", 5, priority=15), held("other", "free-b", 5, priority=1)]
    running[0].evicted = True
    assert [*decide(tiers(), running, ask("premium-a", 4, priority=30)).evicted] == ["going"]
