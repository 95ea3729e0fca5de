"""Kinds of nodes that Kueue hands out, as an administrator writes them down, and how many of each there are."""

import json
import re
from collections.abc import Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, StringConstraints, model_validator

from ft_resources.errors import BadRecipe, UserError
from ft_resources.kubernetes.objects import Object
from ft_resources.strict import nearest, read_strict, read_text
from ft_resources.strict_model import StrictModel

_UNITS = {unit: 10.0**power for unit, power in zip(("n", "u", "m", "", *"kMGTPE"), range(-9, 19, 3), strict=True)} | {
    f"{prefix}i": 1024.0**power for power, prefix in enumerate("KMGTPE", 1)
}
# Whole numbers, so that a share of one is written in its own unit.
_QUANTITY = r"\d{1,12}(m|k|M|G|T|Ki|Mi|Gi|Ti)?"
# As the API server writes them: fractions and exponents too.
_ANY_QUANTITY = re.compile(r"(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(\D*)")
_MOST_BYTES = 256 * 1024 * 1024
_AS_SHOWN = "Write them as k8s/kustomize/base/flavours.yaml shows."
_HOST = "kubernetes.io/hostname"
# The name of an AdmissionCheck's parameters has 63 characters and no dots, and this is a part of it.
_MAX_NAME = 48

Level = Annotated[str, StringConstraints(pattern=r"^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$")]


class Taint(StrictModel):
    """A taint of nodes, as Kubernetes writes it."""

    key: str = Field(min_length=1, description="The taint's key.")
    value: str | None = Field(None, description="The taint's value; null: none.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = Field(
        "NoSchedule", description="The taint's effect."
    )


class Provisioning(StrictModel):
    """How an autoscaler makes the nodes of a flavour before a Job that needs them starts."""

    class_name: str = Field(
        pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$",
        description="Class of ProvisioningRequests, such as check-capacity.autoscaling.x-k8s.io or "
        "queued-provisioning.gke.io.",
    )
    parameters: dict[str, Annotated[str, Field(max_length=255)]] = Field(
        default_factory=dict, description='Parameters of the class, such as {maxRunDurationSeconds: "604800"}.'
    )


class Flavour(StrictModel):
    """A kind of node: a GPU type, spot or on demand."""

    name: str = Field(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$", description="Name of the ResourceFlavor.")
    labels: dict[str, str] = Field(description="Labels of its nodes.")
    capacity: dict[str, Annotated[str, Field(pattern=rf"^{_QUANTITY}$")]] = Field(
        min_length=1,
        description="Total capacity of its nodes for workers, by resource, in whole numbers such as 768Gi.",
    )
    taints: list[Taint] = Field(default_factory=list, description="Taints of its nodes.")
    topology: str | None = Field(
        None, description="Topology of its nodes, one of `topologies`; null: placement in the network is ignored."
    )
    provisioning: Provisioning | None = Field(
        None,
        description="Provisioning of nodes for a Job; `capacity` is then the maximum. null: nodes exist, or an "
        "autoscaler adds them for pending pods.",
    )

    @model_validator(mode="after")
    def _its_check_has_a_name(self) -> "Flavour":
        if self.provisioning and (len(self.name) > _MAX_NAME or "." in self.name):
            raise ValueError(f"with provisioning, its name should have no dots and at most {_MAX_NAME} characters")
        return self


class FlavoursFile(StrictModel):
    """Kinds of nodes, and where nodes lie in the network."""

    flavours: list[Flavour] = Field(min_length=1, description="In the order in which Kueue tries them.")
    topologies: dict[
        Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")],
        Annotated[list[Level], Field(min_length=1, max_length=16)],
    ] = Field(
        default_factory=dict,
        description="Labels of nodes from the widest to the narrowest unit of the network, by the name of the "
        "Topology, such as {racks: [cloud.provider.com/topology-rack, kubernetes.io/hostname]}.",
    )

    @model_validator(mode="after")
    def _as_kueue_takes_them(self) -> "FlavoursFile":
        for name, levels in self.topologies.items():
            if len(set(levels)) < len(levels) or _HOST in levels[:-1]:
                raise ValueError(f"topologies.{name} should name each label once, and {_HOST} last")
        names = [flavour.name for flavour in self.flavours]
        for flavour in self.flavours:
            if names.count(flavour.name) > 1:
                raise ValueError(f"{flavour.name} is the name of several flavours")
            if flavour.topology is not None and flavour.topology not in self.topologies:
                known = nearest(flavour.topology, [*self.topologies])
                raise ValueError(f"{flavour.name}.topology should be one of topologies: {known}")
        return self


def read_flavours(file: Path) -> FlavoursFile:
    """A strict YAML file of flavours. Raises BadRecipe, which names every mistake, also where they count different
    resources: Kueue requires one set for all."""
    said = read_strict(FlavoursFile, file, what="the flavours", remedy=_AS_SHOWN)
    found = said.flavours
    for flavour in found[1:]:
        if set(flavour.capacity) != set(found[0].capacity):
            raise BadRecipe(
                f"{flavour.name} has a capacity of {sorted(flavour.capacity)}, {found[0].name} of "
                f"{sorted(found[0].capacity)}",
                where=f"{file}: {flavour.name}.capacity",
                remedy='Name the same resources in every flavour; write "0" for a resource that a flavour lacks.',
            )
    return said


def amount_and_unit(quantity: str) -> tuple[int, str]:
    """``768Gi`` is 768 and ``Gi``."""
    number = quantity.rstrip("mkMGTi")
    return int(number), quantity.removeprefix(number)


def require_nodes(flavours: Sequence[Flavour], nodes: Path) -> None:
    """Raise UserError for a capacity above what the nodes of its flavour can give to pods. Nodes that are provisioned
    for a Job are not looked for.

    Args:
        nodes: what ``kubectl get nodes -o json`` printed. A node counts for the first flavour whose labels it has, and
            not at all while it is cordoned or not ready.
    """
    text = read_text(nodes, str(nodes), most_bytes=_MOST_BYTES, what="the nodes", remedy="kubectl get nodes -o json")
    try:
        ready = [_room(node) for node in json.loads(text)["items"] if _takes_pods(node)]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        remedy = "Write it with: kubectl get nodes -o json"
        raise UserError("this is not a list of nodes", where=str(nodes), remedy=remedy) from error
    for flavour in (each for each in flavours if each.provisioning is None):
        own = [room for labels, room in ready if _flavour_of(labels, flavours) is flavour]
        for resource, said in flavour.capacity.items():
            number, unit = amount_and_unit(said)
            there = sum(room.get(resource, 0.0) for room in own)
            if number * _UNITS[unit] > there:
                raise UserError(
                    f"{flavour.name} promises {said} of {resource}, and its {len(own)} ready node(s) have "
                    f"{floor(there / _UNITS[unit])}{unit}",
                    where=f"flavour {flavour.name}: capacity.{resource}",
                    remedy="Write what the nodes have, correct the flavour's labels, or add nodes first.",
                )


def _takes_pods(node: Object) -> bool:
    ready = any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"]["conditions"])
    return ready and not node["spec"].get("unschedulable")


def _room(node: Object) -> tuple[Mapping[str, str], dict[str, float]]:
    """A node's labels, and what it can give to pods."""
    allocatable = node["status"]["allocatable"].items()
    return node["metadata"].get("labels", {}), {resource: amount_of(quantity) for resource, quantity in allocatable}


def _flavour_of(labels: Mapping[str, str], flavours: Sequence[Flavour]) -> Flavour | None:
    return next((each for each in flavours if each.labels.items() <= labels.items()), None)


def amount_of(quantity: str | int) -> float:
    """A quantity as the API writes it, in bytes, CPUs or pieces. Raises ValueError for anything else."""
    found = _ANY_QUANTITY.fullmatch(str(quantity))
    if found is None:
        raise ValueError(quantity)
    return float(found[1]) * _UNITS[found[2]]
