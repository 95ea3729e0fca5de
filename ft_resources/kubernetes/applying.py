"""Objects as an administrator's files want them: how the cluster differs, and server-side apply, which ends that.

The API server computes the differences itself, by an apply that it only tries: its defaults are then none, and a field
that the files no longer have is one.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from ft_resources.dotted import leaves
from ft_resources.errors import Misconfigured, NotPermitted
from ft_resources.kubernetes.api import Api, ApiRefusal
from ft_resources.kubernetes.kueue_api import GROUP
from ft_resources.kubernetes.objects import Object, name_of

_KUEUE = {
    "Topology": "topologies",
    "ResourceFlavor": "resourceflavors",
    "ProvisioningRequestConfig": "provisioningrequestconfigs",
    "AdmissionCheck": "admissionchecks",
    "WorkloadPriorityClass": "workloadpriorityclasses",
    "Cohort": "cohorts",
    "ClusterQueue": "clusterqueues",
}
"""Of the whole cluster. Kueue itself keeps what a queue still names until that is gone."""
_NAMESPACED = {
    "ServiceAccount": "serviceaccounts",
    "ConfigMap": "configmaps",
    "NetworkPolicy": "networkpolicies",
    "RoleBinding": "rolebindings",
    "LocalQueue": "localqueues",
    "Deployment": "deployments",
}
_CLUSTER_WIDE = {"Namespace": "namespaces", "PriorityClass": "priorityclasses", **_KUEUE}
WARM = {"Deployment": "apps/v1", "PriorityClass": "scheduling.k8s.io/v1"}
"""Of nodes that are kept warm, which the files may no longer have at all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """An object that is not as it is wanted; ``fields`` are dotted paths of what changes, before and after."""

    verb: Literal["create", "change", "delete"]
    object: Object
    fields: tuple[tuple[str, Any, Any], ...] = ()


def differences(api: Api, wanted: Sequence[Object]) -> list[Difference]:
    """What to create and change, in the order of ``wanted``. Raises NotPermitted and Misconfigured for what the server
    refuses, and ClusterUnavailable, like all functions here."""
    found = []
    for each in wanted:
        with _explained(name_of(each)):
            live = api.get(path_of(each))
            if live is None:
                found.append(Difference(verb="create", object=each))
            elif fields := tuple(_fields(live, api.apply(path_of(each), each, only_try=True))):
                found.append(Difference(verb="change", object=each, fields=fields))
    return found


def strays(api: Api, wanted: Sequence[Object], label: str, kueue: str) -> list[Difference]:
    """What to delete: objects with ``label`` (``name=value``) that are not in ``wanted``, of its kinds, of warm nodes
    and of Kueue's (in ``kueue``, the version that it serves; empty: none). Not listed are objects in a namespace that
    is deleted, those that belong to another object, and those that are being deleted already."""
    kept = {_place(each) for each in wanted}
    kinds = [{"apiVersion": f"{GROUP}/{kueue}", "kind": kind} for kind in ([*_KUEUE, "LocalQueue"] if kueue else [])]
    kinds += [{"apiVersion": version, "kind": kind} for kind, version in WARM.items()]
    collections = {_collection(each): each for each in [*wanted, *kinds]}
    gone = []
    for path, like in collections.items():
        items = _labelled(api, path, label)
        # The items of a list do not say what they are.
        gone += [{**each, "apiVersion": like["apiVersion"], "kind": like["kind"]} for each in items]
    gone = [each for each in gone if _place(each) not in kept and not each["metadata"].get("ownerReferences")]
    namespaces = {each["metadata"]["name"] for each in gone if each["kind"] == "Namespace"}
    left = [each for each in gone if each["metadata"].get("namespace") not in namespaces]
    return [Difference(verb="delete", object=each) for each in left if "deletionTimestamp" not in each["metadata"]]


def _labelled(api: Api, path: str, label: str) -> Sequence[Object]:
    """Objects with a label; none of a kind that an older Kueue does not have."""
    with _explained(f"a list of {path}"):
        try:
            return api.items(path, {"labelSelector": label})
        except ApiRefusal as refusal:
            if refusal.code != 404:
                raise
            return ()


def carry_out(api: Api, difference: Difference) -> None:
    path = path_of(difference.object)
    with _explained(name_of(difference.object)):
        if difference.verb == "delete":
            api.delete(path)
        else:
            api.apply(path, difference.object)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """A refusal as an error for the person who can end it."""
    try:
        yield
    except ApiRefusal as refusal:
        remedy = "Its words say which right, policy or value is wrong. `ft apply` again then does what is left."
        if refusal.code == 404:
            remedy = (
                "It has no such kind, or another version of it: install Kueue, or a newer one (docs/start/cluster.md)."
            )
        error = NotPermitted if refusal.code in (401, 403) else Misconfigured
        raise error(f"the cluster refuses {what} ({refusal})", where="KUBECONFIG", remedy=remedy) from refusal


def path_of(manifest: Object) -> str:
    """Of an object of a kind that is applied here."""
    namespace = manifest["metadata"].get("namespace", "")
    inside = f"/namespaces/{namespace}" if manifest["kind"] in _NAMESPACED else ""
    return f"{_root(manifest)}{inside}/{_plural(manifest)}/{manifest['metadata']['name']}"


def _collection(manifest: Object) -> str:
    return f"{_root(manifest)}/{_plural(manifest)}"


def _root(manifest: Object) -> str:
    version = manifest["apiVersion"]
    return f"/apis/{version}" if "/" in version else f"/api/{version}"


def _plural(manifest: Object) -> str:
    return (_NAMESPACED | _CLUSTER_WIDE)[manifest["kind"]]


def _place(manifest: Object) -> tuple[str, str, str]:
    return manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


def _fields(live: Object, wanted: Object) -> Iterator[tuple[str, Any, Any]]:
    before, after = dict(leaves(_compared(live))), dict(leaves(_compared(wanted)))
    for path in sorted({*before, *after}):
        if before.get(path) != after.get(path):
            yield path, before.get(path), after.get(path)


def _compared(item: Object) -> Object:
    """Without what the server keeps for itself."""
    said = {key: value for key, value in item.items() if key not in ("apiVersion", "kind", "metadata", "status")}
    metadata = {key: item["metadata"].get(key) or {} for key in ("labels", "annotations")}
    return {**said, "metadata": metadata}
