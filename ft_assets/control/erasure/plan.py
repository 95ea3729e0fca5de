"""What may be erased: a pure plan over tombstones, what they cover, and what stands on it.

A dataset version's tombstone covers its upload and everything of the tenant that was made of it, as far as the next
base or mixed dataset; an adapter's covers the adapter, its evaluation and its training; a tenant's covers all of it.
What is covered goes when the grace is over, unless something else that is not covered stands on it, or an adapter in
staging or production does.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ft_assets.erasure.tombstones import Tombstone
from ft_assets.evals.choice import VALIDATION_INPUT

# What an adapter's own tombstone covers beside it: by input name, from the adapter upwards.
_OF_ADAPTER = ("eval_report", "checkpoint")
# What is made of these by somebody is his, and not a form of the deleted dataset.
_BORDERS = ("mix:", "suite:", "safety:", "shown:", VALIDATION_INPUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """An artifact in the store, or what is recorded of an erased one: address by input name."""

    address: str
    inputs: Mapping[str, str]
    erased: bool = False

    @property
    def tenant(self) -> str:
        return self.address.split("/")[0]

    @property
    def asset(self) -> str:
        return self.address.split("/")[1]


@dataclass(frozen=True, kw_only=True)
class Situation:
    """All that the plan looks at.

    Args:
        nodes: every artifact, by address.
        uploads: address of the ``raw_dataset`` artifact by dataset key, of deleted ones too.
        wanted: addresses that keys which are not deleted lead to today, and the keys.
        served: adapters in staging and production by address, and where they stand.
        now: UTC.
    """

    nodes: Mapping[str, Node]
    uploads: Mapping[str, str]
    wanted: Mapping[str, str]
    served: Mapping[str, str]
    tombstones: Sequence[Tombstone]
    now: datetime

    def at(self, now: datetime) -> "Situation":
        """The same at another time."""
        return replace(self, now=now)


@dataclass(frozen=True, kw_only=True)
class ErasurePlan:
    """By address: what goes, with its tombstone; what stays for now, and why; what waits for the end of its grace."""

    remove: Mapping[str, Tombstone] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, Tombstone] = field(default_factory=dict)


def plan_erasure(situation: Situation) -> ErasurePlan:
    """Pure. What several tombstones cover waits for the first whose grace is over."""
    covered: dict[str, Tombstone] = {}
    waiting: dict[str, Tombstone] = {}
    children = _children(situation.nodes)
    for tombstone in sorted(situation.tombstones, key=lambda each: (each.due, each.path)):
        into = covered if situation.now >= tombstone.due else waiting
        for address in _covered(tombstone, situation, children):
            into.setdefault(address, tombstone)
    reasons = _needed(situation, covered)
    return ErasurePlan(
        remove={address: covered[address] for address in sorted(covered) if address not in reasons},
        kept={address: reasons[address] for address in sorted(covered) if address in reasons},
        waiting={address: waiting[address] for address in sorted(waiting) if address not in covered},
    )


def _covered(tombstone: Tombstone, situation: Situation, children: Mapping[str, Sequence[str]]) -> Iterator[str]:
    nodes = situation.nodes
    if tombstone.kind == "tenant":
        yield from (address for address, node in nodes.items() if node.tenant == tombstone.name)
    elif tombstone.kind == "adapter":
        yield tombstone.name
        adapter = nodes.get(tombstone.name)
        yield from (adapter.inputs[name] for name in _OF_ADAPTER if adapter and name in adapter.inputs)
    elif (upload := situation.uploads.get(tombstone.name)) is not None:
        yield from _made_of(upload, nodes, children)


def _made_of(upload: str, nodes: Mapping[str, Node], children: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """``upload`` and what was made of it, in its own tenant, as far as the borders."""
    waiting, seen = [upload], {upload}
    tenant = upload.split("/")[0]
    while waiting:
        current = waiting.pop()
        yield current
        for child in children.get(current, ()):
            node = nodes[child]
            crosses = any(name.startswith(_BORDERS) for name, address in node.inputs.items() if address == current)
            if child not in seen and node.tenant == tenant and node.asset != "base_model" and not crosses:
                seen.add(child)
                waiting.append(child)


def _needed(situation: Situation, covered: Mapping[str, Tombstone]) -> dict[str, str]:
    """Why covered artifacts must stay: by whom they, or what stands on them, are needed."""
    reasons: dict[str, str] = {}

    def need(address: str, reason: str) -> None:
        waiting = [address]
        while waiting:
            current = waiting.pop()
            if current not in reasons:
                reasons[current] = reason
                node = situation.nodes.get(current)
                waiting += node.inputs.values() if node else ()

    for address, where in sorted(situation.served.items()):
        need(address, f"{address} is {where}")
    for address, key in sorted(situation.wanted.items()):
        need(address, f"{key} leads to it")
    for address, node in sorted(situation.nodes.items()):
        if address not in covered and not node.erased:
            need(address, f"{address} stands on it")
    return reasons


def _children(nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for address, node in nodes.items():
        for parent in set(node.inputs.values()):
            children.setdefault(parent, []).append(address)
    return children
