"""The part of Kueue that reserves quota and evicts: conditions and messages around what ``kueue_cycle.py`` decides.

Written from Kueue's API and messages (0.18, with the reasons that say why a workload waits), not from a recording.
Fair sharing, partial admission, and which nodes a topology leads to are not covered.
"""

from collections import Counter
from functools import partial
from itertools import product

from tests.cluster.containers import quantity, written
from tests.cluster.control import Controller, Key
from tests.cluster.kueue import message, say
from tests.cluster.kueue_checks import asked_checks, delayed_s, evict
from tests.cluster.kueue_cycle import Ask, Held, Reason, heads, run_cycle
from tests.cluster.kueue_quota import Node, QuotaTree, Usage
from tests.cluster.kueue_topology import kept_apart
from tests.cluster.node import requests, tolerates
from tests.cluster.objects import (
    CLUSTER_QUEUES,
    COHORTS,
    FLAVORS,
    LOCAL_QUEUES,
    WORKLOADS,
    Change,
    Object,
    has,
)


class QueueScheduler(Controller):
    """Reserves quota for the pending Workloads in cycles, and evicts others to make room."""

    # Who waits for others to give way; their place is taken in each cycle.
    _preempting: frozenset[str] | set[str] = frozenset()

    def key(self, change: Change) -> Key | None:
        return ("queues",) if change.kind in (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, COHORTS, FLAVORS) else None

    def sync(self, _: Key) -> float | None:
        everything = {_key(one): one for one in self._objects.list(WORKLOADS) if not has(one, "Finished")}
        tree = QuotaTree(self._objects.list(CLUSTER_QUEUES), self._objects.list(COHORTS))
        held = {name: _held(one) for name, one in everything.items() if "admission" in one["status"]}
        for each in held.values():
            tree.use(each.queue, each.usage)
        idle = [
            one for one in everything.values() if "admission" not in one["status"] and one["spec"].get("active", True)
        ]
        delays = {_key(one): delayed_s(self._objects, one) for one in idle}
        pending = [one for one in idle if not delays[_key(one)]]
        asks = {ask.key: ask for age, one in enumerate(pending) if (ask := self._ask(one, tree, age)) is not None}
        seen: set[str] = set()
        while not seen.issuperset(chosen := {ask.key: ask for ask in heads(asks.values(), self._preempting)}):
            cycle = run_cycle(tree, held.values(), list(chosen.values()))
            seen = self._preempting = set(cycle.preempting)
            for victim, (why, by) in cycle.evicted.items():
                if not held[victim].evicted:
                    self._evict(everything[victim], everything[by], why)
                    held[victim].evicted = True
            for key, ask in chosen.items():
                workload = everything[key]
                if usage := cycle.admitted.get(key):
                    held[key] = _held(self._admit(workload, tree.queues[ask.queue], usage))
                else:
                    reason, why = self._refusal(workload, tree.queues[ask.queue], cycle.preempting.get(key, 0))
                    say(self._objects, workload, ("QuotaReserved", "False", reason, why))
                if key not in seen:
                    del asks[key]
        self._tell_usage(tree)
        return min(filter(None, delays.values()), default=None)

    def _tell_usage(self, tree: QuotaTree) -> None:
        """Each ClusterQueue's status: what its Workloads have reserved, and how many wait."""
        queues = {f"{_name(one)}": one["spec"]["clusterQueue"] for one in self._objects.list(LOCAL_QUEUES)}
        waiting = Counter[str]()
        for one in self._objects.list(WORKLOADS):
            if not has(one, "Finished") and "admission" not in one["status"]:
                waiting[queues.get(f"{one['metadata']['namespace']}/{one['spec']['queueName']}", "")] += 1
        for queue in self._objects.list(CLUSTER_QUEUES):
            name = queue["metadata"]["name"]
            flavors: dict[str, list[Object]] = {}
            for flavor, resource in tree.queues[name].quotas if name in tree.queues else ():
                used = tree.queues[name].usage.get((flavor, resource), 0.0)
                flavors.setdefault(flavor, []).append({"name": resource, "total": _written(resource, used)})
            reserved = [{"name": flavor, "resources": resources} for flavor, resources in flavors.items()]
            status = {"pendingWorkloads": waiting[name], "flavorsReservation": reserved}
            if {one: queue.get("status", {}).get(one) for one in status} != status:
                self._objects.change(CLUSTER_QUEUES, queue, partial(_set_status, status), "status")

    def _ask(self, workload: Object, tree: QuotaTree, age: int) -> Ask | None:
        """What a Workload asks of its ClusterQueue. Without a queue: None, and the Workload's conditions say so."""
        queue = self._objects.find(LOCAL_QUEUES, workload["metadata"]["namespace"], workload["spec"]["queueName"])
        name = queue["spec"]["clusterQueue"] if queue else ""
        if name not in tree.queues:
            what = f"ClusterQueue {name}" if queue else f"LocalQueue {workload['spec']['queueName']}"
            say(self._objects, workload, ("QuotaReserved", "False", "Misconfigured", f"{what} doesn't exist"))
            return None
        pods, wanted = _wanted(workload)
        groups = tree.queues[name].spec["resourceGroups"]
        ways: list[list[dict[tuple[str, str], float]]] = []
        for group in groups:
            here = {one: amount for one, amount in wanted.items() if one in group["coveredResources"]}
            flavors = [one["name"] for one in group["flavors"] if not self._kept_out(pods, one["name"])[1]]
            ways.append([{(flavor, one): amount for one, amount in here.items()} for flavor in flavors])
        covered = {one for group in groups for one in group["coveredResources"]}
        possible = product(*ways) if covered >= wanted.keys() else []
        usages = tuple({place: amount for part in way for place, amount in part.items()} for way in possible)
        return Ask(key=_key(workload), queue=name, priority=_priority(workload), since=age, ways=usages)

    def _kept_out(self, pods: Object, flavor: str) -> tuple[str, str]:
        """Reason and message of why its pods cannot have a flavour, whatever its quota; empty if they can."""
        template = pods["template"]
        spec = self._objects.get(FLAVORS, "", flavor).get("spec", {})
        for taint in spec.get("nodeTaints", []):
            if not any(tolerates(one, taint) for one in template["spec"].get("tolerations", [])):
                words = f"{{{taint['key']} {taint.get('value', '')} {taint['effect']} <nil>}}"
                return "NoMatchingFlavor", f"untolerated taint {words} in flavor {flavor}"
        labels, asked = spec.get("nodeLabels", {}), template["spec"].get("nodeSelector", {})
        if any(labels.get(name, value) != value for name, value in asked.items()):
            return "NoMatchingFlavor", f"flavor {flavor} doesn't match node affinity"
        apart = kept_apart(self._objects, template, pods["count"], flavor)
        return "NoMatchingFlavor" if apart.startswith("Flavor") else "TopologyPlacementFailed", apart

    def _refusal(self, workload: Object, node: Node, giving_way: int) -> tuple[str, str]:
        """Reason and message: of each flavour the first thing that is wrong with it."""
        pods, wanted = _wanted(workload)
        refused: list[tuple[str, str]] = []
        for group in node.spec["resourceGroups"]:
            here = {one: amount for one, amount in wanted.items() if one in group["coveredResources"]}
            wanted = {one: amount for one, amount in wanted.items() if one not in here}
            for flavor in group["flavors"] if here else ():
                kept_out = self._kept_out(pods, flavor["name"])
                if kept_out[1]:
                    refused.append(kept_out)
                    continue
                lacks = (_lack(node, flavor["name"], one, amount) for one, amount in here.items())
                refused.append(next((lack for lack in lacks if lack), ("WaitingForQuota", "")))
        if wanted:
            refused = [("NoMatchingFlavor", f"resource {', '.join(sorted(wanted))} unavailable in ClusterQueue")]
        why = ", ".join(why for _, why in refused if why)
        if giving_way:
            more = f". Pending the preemption of {giving_way} workload(s)"
            return "WaitingForPreemptedWorkloads", f"couldn't assign flavors to pod set main: {why}{more}"
        return max(reason for reason, _ in refused), f"couldn't assign flavors to pod set main: {why}"

    def _admit(self, workload: Object, node: Node, usage: Usage) -> Object:
        flavors = {resource: flavor for flavor, resource in usage}
        used = {resource: _written(resource, amount) for (_, resource), amount in usage.items()}
        count = workload["spec"]["podSets"][0]["count"]
        assigned = {"name": "main", "flavors": flavors, "resourceUsage": used, "count": count}
        admission = {"clusterQueue": node.name, "podSetAssignments": [assigned]}
        checks = asked_checks(node.spec, set(flavors.values()))
        status = {"admission": admission} | ({"admissionChecks": checks} if checks else {})
        self._objects.change(WORKLOADS, workload, lambda draft: draft["status"].update(status), "status")
        before = [type_ for type_ in ("Evicted", "Preempted") if has(workload, type_)]
        say(
            self._objects,
            workload,
            ("QuotaReserved", "True", "QuotaReserved", f"Quota reserved in ClusterQueue {node.name}"),
            *([] if checks else [("Admitted", "True", "Admitted", "The workload is admitted")]),
            *((type_, "False", "QuotaReserved", f"Previously: {message(workload, type_)}") for type_ in before),
        )
        return self._objects.get(WORKLOADS, workload["metadata"]["namespace"], workload["metadata"]["name"])

    def _evict(self, victim: Object, workload: Object, reason: Reason) -> None:
        uid, job = workload["metadata"]["uid"], workload["metadata"]["labels"]["kueue.x-k8s.io/job-uid"]
        why = f"Preempted to accommodate a workload (UID: {uid}, JobUID: {job}) due to {_WHY[reason]}"
        say(self._objects, victim, ("Preempted", "True", reason, why))
        evict(self._objects, victim, "Preempted", why)


_WHY: dict[Reason, str] = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
}


def _set_status(status: Object, draft: Object) -> None:
    draft.setdefault("status", {}).update(status)


def _name(item: Object) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def _key(workload: Object) -> str:
    return _name(workload)


def _wanted(workload: Object) -> tuple[Object, dict[str, float]]:
    """Its pods, and what all of them need."""
    pods = workload["spec"]["podSets"][0]
    return pods, {resource: one * pods["count"] for resource, one in requests(pods["template"]).items()}


def _held(workload: Object) -> Held:
    admission = workload["status"]["admission"]
    assigned = admission["podSetAssignments"][0]
    return Held(
        key=_key(workload),
        queue=admission["clusterQueue"],
        priority=_priority(workload),
        since=float(workload["metadata"]["resourceVersion"]),
        usage={(assigned["flavors"][one], one): quantity(used) for one, used in assigned["resourceUsage"].items()},
        evicted=has(workload, "Evicted"),
    )


def _lack(node: Node, flavor: str, resource: str, amount: float) -> tuple[str, str] | None:
    where, place = f"quota for {resource} in flavor {flavor}", (flavor, resource)
    if amount > node.most(place):
        beyond = f"{_written(resource, amount)} > {_written(resource, node.most(place))}"
        return "ExceedsMaxQuota", f"insufficient {where}, request > maximum capacity ({beyond})"
    if amount > node.available(place):
        more = _written(resource, amount - node.available(place))
        return "WaitingForQuota", f"insufficient unused {where}, {more} more needed"
    return None


def _written(resource: str, amount: float) -> str:
    """As Kueue writes what it has counted: memory and storage by 1,024."""
    return written(amount, binary=resource in ("memory", "ephemeral-storage"))


def _priority(workload: Object) -> int:
    return int(workload["spec"].get("priority", 0))
