"""Which fields Kueue's objects have, in ``v1beta2``, as far as this platform's files use their kinds.

Written from Kueue's API (apis/kueue/v1beta2, apis/config/v1beta2 of 0.15 to 0.19). A server refuses what is not in a
kind's type, and what its rules forbid.
"""

from typing import Any

import jsonschema

from tests.cluster.objects import KUEUE

Schema = dict[str, Any]
_TEXT: Schema = {"type": "string", "minLength": 1}
_COUNT: Schema = {"type": "integer", "minimum": 0}
_QUANTITY: Schema = {"type": ["string", "integer"]}
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_DURATION: Schema = {"type": "string", "pattern": r"^(\d+(h|m|s))+$"}
_LABEL: Schema = {"type": "string", "pattern": r"^([a-z0-9.-]+/)?[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"}


def _object(*required: str, **properties: Schema) -> Schema:
    return {"type": "object", "required": [*required], "additionalProperties": False, "properties": properties}


def _list(items: Schema, most: int = 64) -> Schema:
    return {"type": "array", "items": items, "minItems": 1, "maxItems": most}


_QUOTA = _object("name", "nominalQuota", name=_TEXT, nominalQuota=_QUANTITY, borrowingLimit=_QUANTITY,
                 lendingLimit=_QUANTITY)  # fmt: skip
_GROUPS = {
    "type": "array",
    "maxItems": 16,
    "items": _object(
        "coveredResources",
        "flavors",
        coveredResources=_list(_TEXT),
        flavors=_list(_object("name", "resources", name=_TEXT, resources=_list(_QUOTA))),
    ),
}
_WITHIN: Schema = {"enum": ["Never", "LowerPriority", "LowerOrNewerEqualPriority"]}
_BORROWING = _object("policy", policy={"enum": ["Never", "LowerPriority"]}, maxPriorityThreshold={"type": "integer"})
_SHARING = _object(weight=_QUANTITY)
_CHECKS = _object("admissionChecks", admissionChecks=_list(_object("name", name=_TEXT, onFlavors=_list(_TEXT))))

_SPECS: dict[str, Schema] = {
    "Topology": _object("levels", levels=_list(_object("nodeLabel", nodeLabel=_LABEL), 16) | {"uniqueItems": True}),
    "ResourceFlavor": _object(
        nodeLabels=_TEXTS,
        nodeTaints={"type": "array", "maxItems": 8},
        tolerations={"type": "array", "maxItems": 8},
        topologyName=_TEXT,
    ),
    "AdmissionCheck": _object(
        "controllerName",
        controllerName=_TEXT,
        parameters=_object("apiGroup", "kind", "name", apiGroup=_TEXT, kind=_TEXT, name=_TEXT | {"maxLength": 63}),
    ),
    "ProvisioningRequestConfig": _object(
        "provisioningClassName",
        provisioningClassName=_TEXT,
        parameters=_TEXTS,
        managedResources=_list(_TEXT, 100),
        retryStrategy=_object(backoffLimitCount=_COUNT, backoffBaseSeconds=_COUNT, backoffMaxSeconds=_COUNT),
        podSetUpdates={"type": "object"},
        podSetMergePolicy={"enum": ["IdenticalPodTemplates", "IdenticalWorkloadSchedulingRequirements"]},
    ),
    "MultiKueueConfig": _object("clusters", clusters=_list(_TEXT, 20) | {"uniqueItems": True}),
    "MultiKueueCluster": _object(
        "clusterSource",
        clusterSource=_object(
            "kubeConfig",
            kubeConfig=_object("location", location=_TEXT, locationType={"enum": ["Secret", "Path"]}),
        ),
    ),
    "Cohort": _object(parentName=_TEXT, resourceGroups=_GROUPS, fairSharing=_SHARING),
    "ClusterQueue": _object(
        resourceGroups=_GROUPS,
        cohortName=_TEXT,
        queueingStrategy={"enum": ["StrictFIFO", "BestEffortFIFO"]},
        namespaceSelector={"type": "object"},
        flavorFungibility=_object(
            whenCanBorrow={"enum": ["MayStopSearch", "TryNextFlavor", "Borrow"]},
            whenCanPreempt={"enum": ["MayStopSearch", "TryNextFlavor", "Preempt"]},
        ),
        preemption=_object(
            withinClusterQueue=_WITHIN,
            reclaimWithinCohort={"enum": ["Never", "LowerPriority", "Any"]},
            borrowWithinCohort=_BORROWING,
        ),
        admissionChecksStrategy=_CHECKS,
        stopPolicy={"enum": ["None", "Hold", "HoldAndDrain"]},
        fairSharing=_SHARING,
    ),
    "LocalQueue": _object("clusterQueue", clusterQueue=_TEXT),
}
PODS_READY = _object(
    "timeout",
    timeout=_DURATION,
    recoveryTimeout=_DURATION,
    blockAdmission={"type": "boolean"},
    requeuingStrategy=_object(
        timestamp={"enum": ["Eviction", "Creation"]},
        backoffLimitCount=_COUNT,
        backoffBaseSeconds=_COUNT,
        backoffMaxSeconds=_COUNT,
    ),
)
"""``waitForPodsReady`` of Kueue's own Configuration."""


def faults(body: dict[str, Any]) -> list[str]:
    """What a server would refuse in an object of Kueue's; kinds without a schema here have none."""
    schema = _SPECS.get(body.get("kind", ""))
    if schema is None or body.get("apiVersion", KUEUE) != KUEUE:
        return []
    spec = body.get("spec", {})
    checked = jsonschema.Draft202012Validator(schema).iter_errors(spec)
    found = [f"{error.json_path.replace('$', 'spec', 1)}: {error.message}" for error in checked]
    return found or [
        f"{flavor['name']}: {[each['name'] for each in flavor['resources']]} must match the names in coveredResources"
        for group in spec.get("resourceGroups", [])
        for flavor in group["flavors"]
        if [each["name"] for each in flavor["resources"]] != group["coveredResources"]
    ]
