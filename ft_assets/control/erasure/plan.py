"""What may be erased: a pure plan over tombstones, what they cover, and what depends on it.

A dataset version's tombstone covers its upload and everything the tenant derived from it, up to the next base model or
mixed dataset. An adapter's covers the adapter, its evaluation, its training and its exports; a tenant's covers
everything. Covered artifacts are erased after the grace period unless an uncovered artifact, or an adapter in staging
or production, depends on them.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from ft_assets.records.tombstones import Tombstone
from ft_assets.settings.catalogue.exports import EXPORTS
from ft_assets.workers.evals.selection_rule import VALIDATION_INPUT
from ft_assets.workers.training.earlier import WARM_START_INPUT

# What an adapter's tombstone covers in addition: input names, from the adapter upwards.
_OF_ADAPTER = ("eval_report", "checkpoint")
_EXPORTED = frozenset(each.asset for each in EXPORTS.values())
# What others make from these is their own, not a form of the deleted dataset.
_BORDERS = ("mix:", "suite:", "safety:", "shown:", VALIDATION_INPUT, WARM_START_INPUT)


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """An artifact in the store, or the record of an erased one. Inputs map a name to an address."""

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
    """Everything that the plan considers.

    Args:
        nodes: every artifact, by address.
        uploads: address of the ``raw_dataset`` artifact by dataset key, including deleted keys.
        wanted: addresses that live keys resolve to today, and the keys.
        served: adapters in staging and production: address to line and stage.
        now: UTC.
    """

    nodes: Mapping[str, Node]
    uploads: Mapping[str, str]
    wanted: Mapping[str, str]
    served: Mapping[str, str]
    tombstones: Sequence[Tombstone]
    now: datetime

    def at(self, now: datetime) -> "Situation":
        """The same situation at another time."""
        return replace(self, now=now)


@dataclass(frozen=True, kw_only=True)
class ErasurePlan:
    """By address: what is erased, with its tombstone; what is kept, and why; what waits for its grace period to end."""

    remove: Mapping[str, Tombstone] = field(default_factory=dict)
    kept: Mapping[str, str] = field(default_factory=dict)
    waiting: Mapping[str, Tombstone] = field(default_factory=dict)


def plan_erasure(situation: Situation) -> ErasurePlan:
    """The plan. An artifact under several tombstones is erased once the first grace period is over."""
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
        for child in children.get(tombstone.name, ()):
            if nodes[child].asset in _EXPORTED:
                # With its own evaluation.
                yield from (child, *children.get(child, ()))
    elif (upload := situation.uploads.get(tombstone.name)) is not None:
        yield from _made_of(upload, nodes, children)


def _made_of(upload: str, nodes: Mapping[str, Node], children: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """``upload`` and what was derived from it within its tenant, up to the borders."""
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
    """Why covered artifacts must be kept: what needs them or their descendants."""
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
        need(address, f"{key} refers to it")
    for address, node in sorted(situation.nodes.items()):
        if address not in covered and not node.erased:
            need(address, f"{address} is based on it")
    return reasons


def _children(nodes: Mapping[str, Node]) -> dict[str, list[str]]:
    children: dict[str, list[str]] = {}
    for address, node in nodes.items():
        for parent in set(node.inputs.values()):
            children.setdefault(parent, []).append(address)
    return children
