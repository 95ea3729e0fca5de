"""Kueue's objects about nodes: where they lie in the network, and who makes them.

https://kueue.sigs.k8s.io/docs/concepts/topology_aware_scheduling/,
https://kueue.sigs.k8s.io/docs/concepts/admission_check/provisioning_request/.
"""

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any

from ft_resources.kubernetes.flavours import Flavour, Provisioning
from ft_resources.kubernetes.kueue_api import API, GROUP

Manifest = dict[str, Any]
PROVISION = "ft-provision-"
"""Before a flavour's name: its AdmissionCheck, and that check's parameters."""
_RETRY_FROM_S, _RETRY_AT_MOST_S = 60, 1800


def topologies_of(topologies: Mapping[str, Sequence[str]]) -> list[Manifest]:
    """The Topology objects. Kueue lets nobody change the levels of one: other levels need another name."""
    return [
        {
            "apiVersion": API,
            "kind": "Topology",
            "metadata": {"name": name},
            "spec": {"levels": [{"nodeLabel": label} for label in levels]},
        }
        for name, levels in topologies.items()
    ]


def provisioning_of(flavours: Sequence[Flavour], patience_s: float) -> list[Manifest]:
    """An AdmissionCheck with its parameters for each flavour whose nodes are made for a Job.

    Args:
        patience_s: how long work may wait; Kueue gives up no earlier.
    """
    made = [(each.name, each.provisioning) for each in flavours if each.provisioning]
    return [manifest for name, asked in made for manifest in _check(f"{PROVISION}{name}", asked, patience_s)]


def checks_of(flavours: Sequence[Flavour]) -> Manifest:
    """The part of a ClusterQueue's spec that lets Jobs start only once nodes of these flavours are provisioned."""
    checks = [{"name": f"{PROVISION}{each.name}", "onFlavors": [each.name]} for each in flavours if each.provisioning]
    return {"admissionChecksStrategy": {"admissionChecks": checks}} if checks else {}


def _check(name: str, asked: Provisioning, patience_s: float) -> list[Manifest]:
    retries = {
        "backoffLimitCount": ceil(patience_s / _RETRY_AT_MOST_S),
        "backoffBaseSeconds": _RETRY_FROM_S,
        "backoffMaxSeconds": _RETRY_AT_MOST_S,
    }
    # Kueue's own limit is 3: whoever found no nodes for seven minutes would wait for ever.
    spec: Manifest = {"provisioningClassName": asked.class_name, "retryStrategy": retries}
    if asked.parameters:
        spec["parameters"] = asked.parameters
    kind = "ProvisioningRequestConfig"
    parameters = {"apiGroup": GROUP, "kind": kind, "name": name}
    return [
        {"apiVersion": API, "kind": kind, "metadata": {"name": name}, "spec": spec},
        {
            "apiVersion": API,
            "kind": "AdmissionCheck",
            "metadata": {"name": name},
            "spec": {"controllerName": f"{GROUP}/provisioning-request", "parameters": parameters},
        },
    ]
