"""What a queue has room for now: Kueue's quota tree, from ClusterQueues and Cohorts as the API shows them. Pure.

Quota, borrowing and lending limits as in https://kueue.sigs.k8s.io/docs/concepts/cohort/: a node keeps for itself what
its lending limit withholds, and what it uses beyond that counts above it. Without preemption by priority: room is what
is idle, and what others borrowed of the queue's own quota or of a Cohort's above it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import inf

from ft_resources.kubernetes.flavours import amount_of
from ft_resources.kubernetes.objects import Object

Place = tuple[str, str]
"""A flavour and one of its resources."""


@dataclass(eq=False)
class _Node:
    """A ClusterQueue, whose ``used`` is reserved by its Workloads, or a Cohort."""

    spec: Object
    used: Mapping[Place, float] = field(default_factory=dict)
    waiting: int = 0
    parent: "_Node | None" = None
    children: "list[_Node]" = field(default_factory=list)
    _quota: dict[Place, float] = field(default_factory=dict)
    _usage: dict[Place, float] = field(default_factory=dict)

    @property
    def groups(self) -> Sequence[Object]:
        """Resources that are counted in the same flavours."""
        return self.spec.get("resourceGroups") or ()

    @cached_property
    def quotas(self) -> Mapping[Place, Object]:
        flavours = [flavour for group in self.groups for flavour in group["flavors"]]
        return {(each["name"], one["name"]): one for each in flavours for one in each["resources"]}

    @property
    def root(self) -> "_Node":
        return self if self.parent is None else self.parent.root

    def quota(self, place: Place) -> float:
        """All quota of the node and of those below it, as far as they lend it."""
        if place not in self._quota:
            below = sum(each.quota(place) - each.kept(place) for each in self.children)
            self._quota[place] = self._said(place, "nominalQuota", 0.0) + below
        return self._quota[place]

    def kept(self, place: Place) -> float:
        """What it never lends."""
        return max(0.0, self.quota(place) - self._said(place, "lendingLimit", inf))

    def usage(self, place: Place) -> float:
        if place not in self._usage:
            below = sum(max(0.0, each.usage(place) - each.kept(place)) for each in self.children)
            self._usage[place] = self.used.get(place, 0.0) + below
        return self._usage[place]

    def room(self, place: Place) -> float:
        """What it may have beside its usage, if those who borrowed its quota give it back."""
        own = self.quota(place) - self.usage(place)
        if self.parent is None:
            return own
        kept, usage = self.kept(place), self.usage(place)
        lent = self.quota(place) - kept - max(0.0, usage - kept) + self._said(place, "borrowingLimit", inf)
        return max(own, max(0.0, kept - usage) + min(lent, self.parent.room(place)))

    def leaves(self) -> "Iterator[_Node]":
        """The ClusterQueues below it, or itself."""
        for each in self.children:
            yield from each.leaves()
        if not self.children:
            yield self

    def _said(self, place: Place, name: str, otherwise: float) -> float:
        said = self.quotas.get(place, {}).get(name)
        return otherwise if said is None else amount_of(said)


class Room:
    """The room of each ClusterQueue."""

    def __init__(self, queues: Iterable[Object], cohorts: Iterable[Object]) -> None:
        self._queues = {each["metadata"]["name"]: _queue(each) for each in queues}
        self._cohorts = {each["metadata"]["name"]: _Node(each.get("spec", {})) for each in cohorts}
        for node in self._queues.values():
            # v1beta1 calls it ``cohort``.
            self._place(node, node.spec.get("cohortName") or node.spec.get("cohort"))
        for node in list(self._cohorts.values()):
            self._place(node, node.spec.get("parentName"))

    def _place(self, node: _Node, above: str | None) -> None:
        """A Cohort that is only named exists too, without quota of its own. A circle of them, whose queues
        Kueue stops, is cut."""
        parent = self._cohorts.setdefault(above, _Node({})) if above else None
        if parent is not None and parent.root is not node:
            node.parent = parent
            parent.children.append(node)

    def flavours(self, queue: str) -> list[list[str]]:
        """The flavours of each resource group of a ClusterQueue, in its order; none if there is no such queue."""
        node = self._queues.get(queue)
        return [[each["name"] for each in group["flavors"]] for group in node.groups] if node else []

    def fits(
        self, queue: str, flavours: Sequence[str], wanted: Mapping[str, float], held: Mapping[Place, float]
    ) -> bool:
        """Whether of each resource group one of ``flavours`` has all that is ``wanted`` of its resources, once the
        queue gives back what it has ``held``. Resources that the queue does not count are not asked; a queue that does
        not exist has none."""
        node = self._queues.get(queue)
        return node is not None and all(
            any(
                all(
                    wanted[resource] - held.get((each, resource), 0.0) <= node.room((each, resource))
                    for resource in wanted.keys() & _resources(group)
                )
                for each in (one["name"] for one in group["flavors"])
                if each in flavours
            )
            for group in node.groups
            if wanted.keys() & _resources(group)
        )

    def waiting(self, queue: str, flavours: Iterable[str], resources: Iterable[str]) -> int:
        """Workloads that wait in queues which share quota with this one, and have room for some of ``resources`` in one
        of ``flavours``. Who waits for what its own limits leave it would not have it if it stayed idle."""
        node = self._queues.get(queue)
        places = list(product(flavours, resources))
        queues = node.root.leaves() if node else ()
        return sum(each.waiting for each in queues if each.waiting and any(each.room(place) > 0.0 for place in places))


def _resources(group: Object) -> set[str]:
    return {one["name"] for each in group["flavors"] for one in each["resources"]}


def _queue(item: Object) -> _Node:
    status = item.get("status") or {}
    used = {
        (flavour["name"], each["name"]): amount_of(each.get("total") or "0")
        for flavour in status.get("flavorsReservation") or ()
        for each in flavour["resources"]
    }
    return _Node(item["spec"], used, int(status.get("pendingWorkloads") or 0))
