"""Kueue's quota: ClusterQueues and Cohorts as a tree in which usage beyond a node's own quota counts above it. Pure.

Written from https://kueue.sigs.k8s.io/docs/concepts/cohort/ and .../cluster_queue/ (borrowing and lending limits), and
from how Kueue 0.19 accounts for usage (pkg/cache/scheduler/resource_node.go): a node keeps for itself what its lending
limit withholds, and gives all else to its parent.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from tests.cluster.containers import quantity
from tests.cluster.objects import Object

Place = tuple[str, str]
"""A flavour and one of its resources."""
Usage = Mapping[Place, float]


@dataclass(frozen=True, slots=True)
class Quota:
    nominal: float
    borrow: float | None = None
    lend: float | None = None


@dataclass
class Node:
    """A ClusterQueue, or a Cohort with its children."""

    name: str
    quotas: dict[Place, Quota]
    spec: Object
    parent: "Node | None" = None
    children: "list[Node]" = field(default_factory=list)
    usage: dict[Place, float] = field(default_factory=dict)

    @cached_property
    def subtree(self) -> dict[Place, float]:
        """All quota of the node and of those below it, as far as they lend it."""
        found = {place: quota.nominal for place, quota in self.quotas.items()}
        for child in self.children:
            for place, amount in child.subtree.items():
                found[place] = found.get(place, 0.0) + amount - child.kept(place)
        return found

    @cached_property
    def height(self) -> int:
        """Steps to the furthest leaf."""
        return 1 + max((child.height for child in self.children), default=-1)

    @property
    def above(self) -> "Iterator[Node]":
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def kept(self, place: Place) -> float:
        """What it never lends."""
        quota = self.quotas.get(place)
        return 0.0 if quota is None or quota.lend is None else max(0.0, self.subtree.get(place, 0.0) - quota.lend)

    def unused_of_kept(self, place: Place) -> float:
        return max(0.0, self.kept(place) - self.usage.get(place, 0.0))

    def exceeds(self, place: Place, more: float = 0.0) -> bool:
        """Whether it borrows, once it uses ``more``."""
        return self.usage.get(place, 0.0) + more > self.subtree.get(place, 0.0)

    def available(self, place: Place) -> float:
        if self.parent is None:
            return self.subtree.get(place, 0.0) - self.usage.get(place, 0.0)
        from_above = self.parent.available(place)
        quota = self.quotas.get(place)
        if quota is not None and quota.borrow is not None:
            kept = self.kept(place)
            lent = self.subtree.get(place, 0.0) - kept - max(0.0, self.usage.get(place, 0.0) - kept)
            from_above = min(from_above, lent + quota.borrow)
        return self.unused_of_kept(place) + from_above

    def most(self, place: Place) -> float:
        """What it can have if nobody else uses anything."""
        if self.parent is None:
            return self.subtree.get(place, 0.0)
        found = self.kept(place) + self.parent.most(place)
        quota = self.quotas.get(place)
        if quota is not None and quota.borrow is not None:
            found = min(found, self.subtree.get(place, 0.0) + quota.borrow)
        return found

    def use(self, place: Place, amount: float) -> None:
        """Count ``amount``, or give it back where it is negative."""
        kept, before = self.kept(place), self.usage.get(place, 0.0)
        # Tenths of a CPU add up to what they are, whatever came and went.
        after = round(before + amount, 6)
        self.usage[place] = after
        beyond = max(0.0, after - kept) - max(0.0, before - kept)
        if self.parent is not None and beyond:
            self.parent.use(place, beyond)


class QuotaTree:
    """All ClusterQueues with the Cohorts above them."""

    def __init__(self, queues: Iterable[Object], cohorts: Iterable[Object] = ()) -> None:
        self.queues = {each["metadata"]["name"]: _node(each) for each in queues}
        self.cohorts = {each["metadata"]["name"]: _node(each) for each in cohorts}
        for node in self.queues.values():
            self._place(node, node.spec.get("cohortName"))
        for node in list(self.cohorts.values()):
            self._place(node, node.spec.get("parentName"))

    def _place(self, node: Node, above: str | None) -> None:
        """A Cohort that is only named exists too, without quota of its own."""
        if above:
            parent = self.cohorts.setdefault(above, Node(above, {}, {}))
            node.parent = parent
            parent.children.append(node)

    def use(self, queue: str, usage: Usage, sign: float = 1.0) -> None:
        for place, amount in usage.items():
            self.queues[queue].use(place, sign * amount)

    def fits(self, queue: str, usage: Usage, *, borrowing: bool = True) -> bool:
        node = self.queues[queue]
        return all(
            amount <= node.available(place) and (borrowing or not node.exceeds(place, amount))
            for place, amount in usage.items()
        )

    def distance(self, queue: str, usage: Usage) -> int:
        """How far it would borrow: 0 within its own quota, else the height of the lowest Cohort that has as much."""
        return max((self._distance(self.queues[queue], place, amount) for place, amount in usage.items()), default=0)

    def _distance(self, node: Node, place: Place, amount: float) -> int:
        if node.parent is None or not node.exceeds(place, amount):
            return 0
        left, last = amount - node.unused_of_kept(place), node
        for last in node.above:
            if not last.exceeds(place, left):
                break
            left -= last.unused_of_kept(place)
        return last.height


def _node(item: Object) -> Node:
    spec: Any = item["spec"]
    quotas = {
        (flavour["name"], each["name"]): Quota(
            quantity(each["nominalQuota"]), _limit(each, "borrowingLimit"), _limit(each, "lendingLimit")
        )
        for group in spec.get("resourceGroups", ())
        for flavour in group["flavors"]
        for each in flavour["resources"]
    }
    return Node(item["metadata"]["name"], quotas, spec)


def _limit(each: Object, name: str) -> float | None:
    return quantity(each[name]) if name in each else None
