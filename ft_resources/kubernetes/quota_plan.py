"""Who is promised how much of a cluster: tiers' shares in whole GPUs, CPUs and GiB. Pure.

Shares are rounded down, and what no tier reserves is everybody's. So the promises of a plan add up to the capacity, and
never to more.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf

from ft_resources.errors import BadRecipe
from ft_resources.kubernetes.ageing import PRIORITIES
from ft_resources.kubernetes.flavours import Flavour, amount_and_unit
from ft_resources.kubernetes.shares import Share
from ft_resources.work import Priority

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,40}[a-z0-9])?")


@dataclass(frozen=True, kw_only=True, slots=True)
class TierOfCluster:
    """A tier with its tenants, in name order."""

    name: str
    priority: Priority
    share: Share
    tenants: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class TierQuota:
    """A tier's quota of one resource of one flavour, in ``unit``. None: no limit.

    Args:
        reserved: of the tier, ``tenant_reserved`` of each tenant included.
        borrow, lend: most that the tier holds beyond ``reserved``, and that others hold of it.
        tenant_borrow: most that a tenant holds beyond its own.
    """

    tier: TierOfCluster
    unit: str
    reserved: int
    borrow: int | None
    lend: int | None
    tenant_reserved: int
    tenant_borrow: int | None

    @property
    def pool(self) -> int:
        """What of ``reserved`` belongs to the tier's tenants together."""
        return self.reserved - len(self.tier.tenants) * self.tenant_reserved

    @property
    def tenant_most(self) -> float:
        """What one tenant holds at most, if nobody else asks."""
        own = inf if self.tenant_borrow is None else self.tenant_reserved + self.tenant_borrow
        return min(own, inf if self.borrow is None else self.reserved + self.borrow)

    @property
    def most(self) -> float:
        """What all tenants of the tier hold at most, if no other tier asks."""
        all_of_it = inf if self.borrow is None else self.reserved + self.borrow
        return min(all_of_it, len(self.tier.tenants) * self.tenant_most) if self.tier.tenants else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Promised:
    """All of one resource of one flavour: what each tier has, by its name, and what nobody reserved."""

    flavour: str
    resource: str
    unit: str
    capacity: int
    tiers: Mapping[str, TierQuota]

    @property
    def rest(self) -> int:
        return self.capacity - sum(each.reserved for each in self.tiers.values())

    def reachable(self, name: str) -> int:
        """What a tier reserved, nobody did and the others lend."""
        others = [each for other, each in self.tiers.items() if other != name]
        lent = sum(each.reserved if each.lend is None else min(each.reserved, each.lend) for each in others)
        return self.rest + self.tiers[name].reserved + lent

    def when_all_ask(self) -> dict[str, int]:
        """What each tier holds once every tenant asks for more than there is.

        Each tier has what it reserved. The rest goes to the highest priority first, which preempts lower ones that
        borrowed it; within a priority it is divided by weight (Kueue without fair sharing: first come, first served).
        """
        holds = {name: int(min(each.reserved, each.most)) for name, each in self.tiers.items()}
        rest = self.rest
        for name, each in self.tiers.items():
            unused = each.reserved - holds[name]
            rest += unused if each.lend is None else min(unused, each.lend)
        for value in sorted(PRIORITIES.values(), reverse=True):
            rest = self._divide([n for n, t in self.tiers.items() if PRIORITIES[t.tier.priority] == value], holds, rest)
        return holds

    def _divide(self, names: Sequence[str], holds: dict[str, int], rest: int) -> int:
        """Give ``rest`` to the tiers by their weight, none more than it may hold; what nobody may hold is left."""
        while rest and (open_ := [name for name in names if holds[name] < min(self.tiers[name].most, self.capacity)]):
            total = sum(self.tiers[name].tier.share.weight for name in open_)
            given = 0
            for name in open_:
                room = min(self.tiers[name].most, self.capacity) - holds[name]
                part = int(min(room, floor(rest * self.tiers[name].tier.share.weight / total)))
                holds[name] += part
                given += part
            if not given:
                # Less than one for each: by weight, then by name.
                holds[max(open_, key=lambda name: (self.tiers[name].tier.share.weight, name))] += 1
                given = 1
            rest -= given
        return rest


def plan_quota(flavours: Sequence[Flavour], tiers: Sequence[TierOfCluster]) -> list[Promised]:
    """The promises for each flavour and resource, in the first flavour's order of resources: Kueue takes only one.

    Raises BadRecipe for tiers that promise more than there is.
    """
    _require_possible(tiers)
    return [_promised(flavour, resource, tiers) for flavour in flavours for resource in flavours[0].capacity]


def _promised(flavour: Flavour, resource: str, tiers: Sequence[TierOfCluster]) -> Promised:
    capacity, unit = amount_and_unit(flavour.capacity[resource])

    def part(share: float) -> int:
        # 0.29 * 100 is 28.999999999999996.
        return floor(capacity * share + 1e-9)

    def limit(share: float | None) -> int | None:
        return None if share is None else part(share)

    quotas = {
        tier.name: TierQuota(
            tier=tier,
            unit=unit,
            reserved=part(tier.share.reserved),
            borrow=limit(tier.share.borrow),
            lend=limit(tier.share.lend),
            tenant_reserved=part(tier.share.tenant_reserved),
            tenant_borrow=limit(tier.share.tenant_borrow),
        )
        for tier in tiers
    }
    return Promised(flavour=flavour.name, resource=resource, unit=unit, capacity=capacity, tiers=quotas)


def _require_possible(tiers: Sequence[TierOfCluster]) -> None:
    for tier in tiers:
        where = f"tenants file: tiers.{tier.name}"
        if not _NAME.fullmatch(tier.name):
            remedy = "Lower-case letters, digits and `-`, at most 42 of them: a Cohort of Kueue has this name."
            raise BadRecipe(f"{tier.name!r} cannot name a tier of a cluster", where=where, remedy=remedy)
        each, all_of_them, count = tier.share.tenant_reserved, tier.share.reserved, len(tier.tenants)
        if each * count > all_of_them + 1e-9:
            raise BadRecipe(
                f"its {count} tenants are promised {each:.1%} each, {each * count:.1%} in all, of the "
                f"{all_of_them:.1%} that the tier has",
                where=f"{where}.cluster.tenant_reserved",
                remedy=f"Reserve {each * count:.1%} for the tier, or at most {all_of_them / count:.2%} for a tenant.",
            )
    total = sum(tier.share.reserved for tier in tiers)
    if total > 1 + 1e-9:
        said = ", ".join(f"{tier.name} {tier.share.reserved:.0%}" for tier in tiers if tier.share.reserved)
        raise BadRecipe(
            f"the tiers reserve {total:.0%} of the cluster: {said}",
            where="tenants file: tiers.*.cluster.reserved",
            remedy=f"Take {total - 1:.0%} from them; what a tier needs only at times, it can borrow.",
        )
