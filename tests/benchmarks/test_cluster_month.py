"""The simulated month: it reads what the platform generates, and shows where that is wrong."""

import copy
from typing import Any

import pytest

from benchmarks.cluster_month import example_tenants, generated, money, simulate, starved, utilisation, waits
from benchmarks.month_queue import Month
from benchmarks.month_trace import draw_month
from ft_resources.kubernetes.kueue import Manifest

SHORT: dict[str, Any] = {"days": 1.0, "nodes": 8}


def premium_p95_min(month: Month) -> float:
    return waits([each for each in month.runs.values() if each.asked.tier == "premium"]).p95 / 60


@pytest.fixture(scope="module")
def month() -> Month:
    return simulate(**SHORT)


def test_every_training_ends_and_nothing_stays_held(month: Month) -> None:
    assert all(each.ended is not None for each in month.runs.values())
    assert (month.held, month.waiting) == ({}, {})
    nodes = [*month.tree.queues.values(), *month.tree.cohorts.values()]
    assert all(amount == 0 for node in nodes for amount in node.usage.values())


def test_a_day_at_85_percent_load_trains_so_much_and_holds_more(month: Month) -> None:
    held, trained = utilisation(month, days=1.0, gpus=128)
    assert trained == pytest.approx(0.85)
    assert trained < held < 1.1
    paid, unpaid = money(month, example_tenants())
    assert paid > 0
    assert unpaid > 0


def test_the_same_seed_is_the_same_month(month: Month) -> None:
    again = simulate(**SHORT)
    assert [each.ended for each in again.runs.values()] == [each.ended for each in month.runs.values()]


def broken(objects: list[Manifest]) -> list[Manifest]:
    """As every tenant's quota was before tiers: nothing is reserved, and who borrows takes nothing from others."""
    found = copy.deepcopy(objects)
    for each in found:
        each.get("spec", {}).pop("parentName", None)
        if each["kind"] == "ClusterQueue":
            each["spec"]["cohortName"] = "ft"
            each["spec"]["preemption"]["borrowWithinCohort"] = {"policy": "Never"}
    whole = next(each for each in found if each["metadata"]["name"] == "ft" and each["kind"] == "Cohort")
    for flavour in whole["spec"]["resourceGroups"][0]["flavors"]:
        for resource, amount in zip(flavour["resources"], ("512", "6144Gi", "64"), strict=True):
            resource["nominalQuota"] = amount
    return found


def test_queues_without_tiers_keep_premium_waiting(month: Month) -> None:
    without = simulate(objects=broken(generated(example_tenants(), nodes=8)), **SHORT)
    assert premium_p95_min(without) > 3 * premium_p95_min(month)


def test_only_what_the_manifests_give_is_had() -> None:
    """Without the Cohorts no tenant has any quota."""
    queues = [each for each in generated(example_tenants(), nodes=8) if each["kind"] != "Cohort"]
    month = simulate(objects=queues, **SHORT)
    assert starved(month) == len(month.runs) > 400


def test_both_kinds_of_node_are_asked_for_alike() -> None:
    names = {"premium": ["a"], "standard": ["b"], "free": ["c"]}
    drawn = draw_month(names, gpus={False: 64, True: 32}, load=0.85, per_day=500.0, days=3.0, seed=1)
    for spot, gpus in ((False, 64), (True, 32)):
        hours = sum(each.gpus * each.seconds for each in drawn if each.spot is spot) / 3600
        assert hours == pytest.approx(0.85 * gpus * 72)
    assert [each.at for each in drawn] == sorted(each.at for each in drawn)
