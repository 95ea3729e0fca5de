"""Manifests on a cluster, and what a container of theirs gets from it."""

from collections.abc import Iterable
from typing import Any

import httpx

from tests.cluster.cluster import ADMIN, Cluster
from tests.cluster.objects import CONFIG_MAPS, KINDS, Object

_KINDS = {(kind.api, kind.name): kind for kind in KINDS.values()}


def apply(cluster: Cluster, manifests: Iterable[Object]) -> None:
    """What ``kubectl apply`` does for the first time: by the API, namespaces before what is in them."""
    for manifest in sorted(manifests, key=lambda each: each["kind"] != "Namespace"):
        kind, metadata = _KINDS[manifest["apiVersion"], manifest["kind"]], manifest["metadata"]
        group = "/api/v1" if kind.api == "v1" else f"/apis/{kind.api}"
        place = f"/namespaces/{metadata['namespace']}" if kind.namespaced else ""
        answer = httpx.post(
            f"http://127.0.0.1:{cluster.port}{group}{place}/{kind.plural}",
            json=manifest,
            headers={"authorization": f"Bearer {ADMIN}"},
            timeout=60,
            trust_env=False,
        )
        assert answer.status_code == 201, f"{kind.name} {metadata['name']}: {answer.text}"


def found(cluster: Cluster, manifest: Object) -> Object | None:
    """The object on the cluster that a manifest describes."""
    kind, metadata = _KINDS[manifest["apiVersion"], manifest["kind"]], manifest["metadata"]
    return next((each for each in cluster.objects.list(kind) if each["metadata"]["name"] == metadata["name"]), None)


def environment_of(cluster: Cluster, namespace: str, container: dict[str, Any]) -> dict[str, str]:
    """The variables that a container's process finds, but for those of Secrets."""
    said: dict[str, str] = {}
    for source in container.get("envFrom", []):
        if "configMapRef" in source:
            said |= cluster.objects.get(CONFIG_MAPS, namespace, source["configMapRef"]["name"])["data"]
    return said | {each["name"]: each["value"] for each in container.get("env", []) if "value" in each}
