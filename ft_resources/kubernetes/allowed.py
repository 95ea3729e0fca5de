"""Which flavours a training's pods may have, and what they request of one. Pure."""

from collections.abc import Sequence

from ft_resources.kubernetes.flavours import Taint
from ft_resources.kubernetes.job_plan import PodPlan
from ft_resources.kubernetes.objects import Object
from ft_resources.kubernetes.tolerated import KEEPS_OUT, tolerates

_GIB = 2.0**30


def requested(plan: PodPlan) -> dict[str, float]:
    """What all pods of a training request."""
    devices = {plan.gpu_resource: plan.gpus, **(plan.network.resources if plan.network else {})}
    each = {"cpu": plan.cpus, "memory": plan.memory_gib * _GIB, **devices}
    return {resource: amount * plan.nodes for resource, amount in each.items()}


def allowed(plan: PodPlan, group: Sequence[str], flavours: Sequence[Object]) -> list[str]:
    """The flavours of a resource group that the pods may have by their node selector, tolerations and topology, as
    Kueue decides it (https://kueue.sigs.k8s.io/docs/concepts/resource_flavor/). Free nodes are not looked for."""
    specs = {each["metadata"]["name"]: each.get("spec") or {} for each in flavours}
    known = {label for name in group for label in specs.get(name, {}).get("nodeLabels") or {}}
    selected = {label: value for label, value in plan.node_selector.items() if label in known}
    return [
        name
        for name in group
        if selected.items() <= (specs.get(name, {}).get("nodeLabels") or {}).items()
        and all(
            tolerates(plan.tolerations, taint) or _given(taint, specs[name]) for taint in _taints(specs.get(name, {}))
        )
        and bool(specs.get(name, {}).get("topologyName")) is (plan.topology is not None)
    ]


def _taints(flavour: Object) -> list[Taint]:
    found = flavour.get("nodeTaints") or ()
    kept_out = [each for each in found if each["effect"] in KEEPS_OUT]
    return [Taint(key=each["key"], value=each.get("value"), effect=each["effect"]) for each in kept_out]


def _given(taint: Taint, flavour: Object) -> bool:
    """Whether the flavour itself has its pods tolerate ``taint``
    (https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/)."""
    return any(
        each.get("key") in (None, "", taint.key)
        and each.get("effect") in (None, "", taint.effect)
        and (each.get("operator") == "Exists" or (each.get("value") or "") == (taint.value or ""))
        for each in flavour.get("tolerations") or ()
    )
