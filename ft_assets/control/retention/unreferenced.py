"""Unreferenced artifacts: a pure plan over the graph.

An artifact is removed after being unreferenced for some days, counted from a mark that the first scan made. So code
that is rolled back still finds its artifacts, and a scan at a bad moment removes nothing.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ft_assets.control.erasure.plan import Node
from ft_assets.settings.catalogue.exports import EXPORTS

# Assets that the platform can make again. Uploads, adapters, suites and all others belong to people: only a tombstone
# removes them.
REMADE = frozenset(
    {"dataset", "base_model", "baseline_report", "token_pack", "reference_logps", "checkpoint", "eval_report"}
    | {each.asset for each in EXPORTS.values()}
)


@dataclass(frozen=True, kw_only=True)
class Unreferenced:
    """Addresses: what is removed, derived artifacts before their inputs; what gets a mark now; what loses its mark; and
    what has a mark and waits."""

    remove: tuple[str, ...] = ()
    mark: tuple[str, ...] = ()
    unmark: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()


def plan_unreferenced(
    nodes: Mapping[str, Node],
    roots: Iterable[str],
    marks: Mapping[str, datetime],
    days: Mapping[str, int],
    now: datetime,
) -> Unreferenced:
    """The plan. Whatever stays keeps everything it was made from.

    Args:
        nodes: every artifact by address, including erased ones.
        roots: referenced addresses.
        marks: since when an address has been unreferenced.
        days: required days by tenant; nothing is removed for tenants that are not listed.
    """
    owned = [
        address
        for address, node in nodes.items()
        if not node.erased and (node.asset not in REMADE or node.tenant not in days)
    ]
    led_to = _ground(nodes, [*roots, *owned])
    free = sorted(address for address, node in nodes.items() if not node.erased and address not in led_to)
    due = {each for each in free if each in marks and now - marks[each] > timedelta(days=days[nodes[each].tenant])}
    waiting = [address for address in free if address not in due]
    stays = _ground(nodes, waiting)
    going = {address for address in due if address not in stays}
    return Unreferenced(
        remove=tuple(_children_first(nodes, going)),
        mark=tuple(address for address in free if address not in marks),
        unmark=tuple(sorted(set(marks) - set(free))),
        waiting=tuple(address for address in free if address in marks and address not in going),
    )


def _ground(nodes: Mapping[str, Node], addresses: Iterable[str]) -> set[str]:
    """The addresses and everything they were made from."""
    seen: set[str] = set()
    waiting = list(addresses)
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            node = nodes.get(current)
            waiting += node.inputs.values() if node else ()
    return seen


def _children_first(nodes: Mapping[str, Node], going: Collection[str]) -> list[str]:
    """``going`` in an order that never leaves an artifact without its inputs, even if interrupted."""
    children = dict.fromkeys(going, 0)
    for address in going:
        for parent in set(nodes[address].inputs.values()) & set(going):
            children[parent] += 1
    ready = sorted(address for address, count in children.items() if not count)
    ordered = []
    while ready:
        current = ready.pop()
        ordered.append(current)
        for parent in sorted(set(nodes[current].inputs.values())):
            if parent in children:
                children[parent] -= 1
                if not children[parent]:
                    ready.append(parent)
    return ordered
