"""Whether free nodes lie as a Workload needs them: Kueue's topology-aware scheduling, without the nodes that it takes.

Written from https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/ and its code (0.19,
pkg/cache/scheduler/tas_flavor_snapshot.go): a required level has to have one unit with room for all pods; otherwise all
pods need room anywhere.
"""

from tests.cluster.containers import quantity
from tests.cluster.node import requests, tolerates
from tests.cluster.objects import FLAVORS, NODES, PODS, TOPOLOGIES, Object, Objects, has

_REQUIRED, *_OTHERS = (f"kueue.x-k8s.io/podset-{kind}-topology" for kind in ("required", "preferred", "unconstrained"))


def kept_apart(objects: Objects, template: Object, count: int, flavor: str) -> str:
    """Why ``count`` pods cannot have a flavour for its topology; empty if they can."""
    notes = template["metadata"].get("annotations") or {}
    name = objects.get(FLAVORS, "", flavor).get("spec", {}).get("topologyName")
    asks = any(each in notes for each in (_REQUIRED, *_OTHERS))
    if not name:
        return f'Flavor "{flavor}" does not support TopologyAwareScheduling' if asks else ""
    if not asks:
        return f'Flavor "{flavor}" supports only TopologyAwareScheduling'
    levels = [level["nodeLabel"] for level in objects.get(TOPOLOGIES, "", name)["spec"]["levels"]]
    level = notes.get(_REQUIRED, notes.get(_OTHERS[0], levels[-1]))
    if level not in levels:
        return f'Flavor "{flavor}" does not contain the requested level'
    rooms: dict[str, int] = {}
    for node in _nodes(objects, flavor, template, levels):
        unit = node["metadata"]["labels"][level] if _REQUIRED in notes else ""
        rooms[unit] = rooms.get(unit, 0) + _room(objects, node, template)
    if not rooms:
        return f"no topology domains at level: {level}"
    fits = max(rooms.values())
    if fits >= count:
        return ""
    said = f"allows to fit only {fits} out of" if fits else "doesn't allow to fit any of"
    return f'topology "{name}" {said} {count} pod(s)'


def _nodes(objects: Objects, flavor: str, template: Object, levels: list[str]) -> list[Object]:
    """Ready nodes of a flavour that have all labels of its topology, and no taint that keeps the pods out."""
    wanted = objects.get(FLAVORS, "", flavor).get("spec", {}).get("nodeLabels", {})
    tolerated = template["spec"].get("tolerations", [])
    return [
        node
        for node in objects.list(NODES)
        if has(node, "Ready")
        and not node["spec"].get("unschedulable")
        and wanted.items() <= node["metadata"]["labels"].items()
        and all(level in node["metadata"]["labels"] for level in levels)
        and all(any(tolerates(one, taint) for one in tolerated) for taint in node["spec"].get("taints", []))
    ]


def _room(objects: Objects, node: Object, template: Object) -> int:
    """How many more of these pods a node takes."""
    name = node["metadata"]["name"]
    free = {resource: quantity(amount) for resource, amount in node["status"]["allocatable"].items()}
    for pod in objects.list(PODS, "", lambda one: one["spec"].get("nodeName") == name):
        if pod["status"]["phase"] not in ("Succeeded", "Failed"):
            for resource, amount in requests(pod).items():
                free[resource] = free.get(resource, 0.0) - amount
    return int(min((free.get(resource, 0.0) // amount for resource, amount in requests(template).items()), default=110))
