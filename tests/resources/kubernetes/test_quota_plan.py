"""Shares of a cluster in whole GPUs: never more than there is, and nothing left over when all ask."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from ft_resources.errors import BadRecipe
from ft_resources.kubernetes.flavours import Flavour
from ft_resources.kubernetes.quota_plan import Promised, TierOfCluster, plan_quota
from ft_resources.kubernetes.shares import Share
from ft_resources.work import Priority

GPU = "nvidia.com/gpu"


def tier(name: str, priority: Priority = "batch", tenants: int = 2, **share: Any) -> TierOfCluster:
    named = tuple(f"{name}-{number}" for number in range(tenants))
    return TierOfCluster(name=name, priority=priority, share=Share(**share), tenants=named)


def promised(*tiers: TierOfCluster, gpus: int = 16) -> Promised:
    (found,) = plan_quota([Flavour(name="h100", labels={}, capacity={GPU: str(gpus)})], tiers)
    return found


def test_shares_are_whole_gpus_and_what_is_lost_by_rounding_is_everybodys() -> None:
    found = promised(tier("a", reserved=0.3, tenant_reserved=0.1), tier("b", reserved=0.29), gpus=10)
    assert (found.tiers["a"].reserved, found.tiers["a"].tenant_reserved, found.tiers["a"].pool) == (3, 1, 1)
    assert found.tiers["b"].reserved == 2
    assert found.rest == 5
    assert promised(tier("a", reserved=0.29), gpus=100).tiers["a"].reserved == 29


def test_a_quantity_keeps_its_unit() -> None:
    flavour = Flavour(name="h100", labels={}, capacity={"memory": "768Gi", "cpu": "500m"})
    memory, cpu = plan_quota([flavour], [tier("a", reserved=0.25)])
    assert (memory.tiers["a"].reserved, memory.tiers["a"].unit) == (192, "Gi")
    assert (cpu.tiers["a"].reserved, cpu.tiers["a"].unit) == (125, "m")


def test_tiers_that_reserve_more_than_all_are_refused_by_name() -> None:
    with pytest.raises(BadRecipe) as refused:
        promised(tier("premium", reserved=0.8), tier("standard", reserved=0.4))
    assert refused.value.what == "the tiers reserve 120% of the cluster: premium 80%, standard 40%"
    assert refused.value.where == "tenants file: tiers.*.cluster.reserved"
    assert "20%" in refused.value.remedy


def test_a_promise_to_each_tenant_that_the_tier_cannot_keep_is_refused() -> None:
    with pytest.raises(BadRecipe, match=r"its 30 tenants are promised 1.0% each, 30.0% in all, of the 20.0%"):
        promised(tier("premium", tenants=30, reserved=0.2, tenant_reserved=0.01))


def test_a_tier_whose_name_no_cohort_can_have_is_refused() -> None:
    with pytest.raises(BadRecipe, match="cannot name a tier"):
        promised(tier("Gold Plus"))


@pytest.mark.parametrize("parts", [{"lend": 0.6}, {"tenant_reserved": 0.6}])
def test_a_part_of_what_is_reserved_is_not_more_than_that(parts: dict[str, float]) -> None:
    with pytest.raises(ValidationError, match=r"above reserved \(0.5\)"):
        Share(reserved=0.5, **parts)


def test_when_all_ask_the_rest_goes_to_the_highest_priority_within_its_limit() -> None:
    free = tier("free", "interactive")
    assert promised(tier("premium", "production", reserved=0.5), free).when_all_ask() == {"premium": 16, "free": 0}
    limited = promised(tier("premium", "production", reserved=0.5, borrow=0.25), free)
    assert limited.when_all_ask() == {"premium": 12, "free": 4}


def test_when_all_ask_a_priority_is_divided_by_weight() -> None:
    found = promised(tier("a", reserved=0.25, weight=3), tier("b", weight=1))
    assert found.when_all_ask() == {"a": 13, "b": 3}


def test_tenants_that_may_hold_little_leave_the_rest_of_their_tier_to_others() -> None:
    few = tier("premium", "production", tenants=1, reserved=0.5, tenant_borrow=0.25)
    assert promised(few, tier("free", "interactive")).when_all_ask() == {"premium": 4, "free": 12}


def test_what_is_not_lent_stays_idle_when_its_tier_cannot_use_it() -> None:
    closed = tier("premium", "production", tenants=0, reserved=0.5, lend=0.125)
    assert promised(closed, tier("free", "interactive")).when_all_ask() == {"premium": 0, "free": 10}


parts = st.sampled_from([0.0, 0.05, 0.1, 0.2, 0.3])
tiers = st.builds(
    lambda priority, tenants, reserved, limits: (priority, tenants, {"reserved": reserved, **limits}),
    st.sampled_from(["production", "batch", "interactive"]),
    st.integers(0, 5),
    parts,
    st.fixed_dictionaries(
        {}, optional={"borrow": parts, "tenant_borrow": parts, "weight": st.sampled_from([0.5, 1.0, 3.0])}
    ),
)


@given(st.lists(tiers, min_size=1, max_size=3), st.integers(0, 64))
def test_no_plan_gives_more_than_there_is_and_each_tier_gets_what_it_reserved(
    drawn: list[tuple[Priority, int, dict[str, float]]], gpus: int
) -> None:
    found = promised(*(tier(f"t{n}", p, t, **share) for n, (p, t, share) in enumerate(drawn)), gpus=gpus)
    holds = found.when_all_ask()
    assert sum(holds.values()) <= gpus
    assert found.rest >= 0
    for name, each in found.tiers.items():
        assert min(each.reserved, each.most) <= holds[name] <= each.most
    if sum(holds.values()) < gpus:
        assert all(holds[name] >= each.most for name, each in found.tiers.items())
