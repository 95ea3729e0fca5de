"""What a client that knows no kind beforehand, such as ``kubectl``, asks first: which groups and kinds are served."""

from tests.cluster import kueue_versions
from tests.cluster.objects import KINDS, Kind, Object

_VERBS = ["create", "delete", "get", "list", "patch", "watch"]


def discovery(path: str, kueue: tuple[str, ...]) -> Object | None:
    """The answer for a path of discovery, None for any other path. ``kueue``: the versions of Kueue that are served."""
    path, groups = path.rstrip("/"), dict[str, tuple[str, ...]]()
    for kind in KINDS.values():
        group, _, version = kind.api.rpartition("/")
        served = kueue if group == kueue_versions.GROUP else (version,)
        if served:
            groups[group] = served
    core = groups.pop("")
    if path == "/api":
        return {"kind": "APIVersions", "versions": list(core)}
    if path == "/apis":
        found = [_group(name, versions) for name, versions in groups.items()]
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": found}
    for name, versions in {"": core, **groups}.items():
        if name and path == f"/apis/{name}":
            return _group(name, versions)
        for version in versions:
            if path == (f"/apis/{name}/{version}" if name else f"/api/{version}"):
                return _kinds(name, version)
    return None


def _group(name: str, versions: tuple[str, ...]) -> Object:
    served = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"kind": "APIGroup", "apiVersion": "v1", "name": name, "versions": served, "preferredVersion": served[0]}


def _kinds(group: str, version: str) -> Object:
    kinds = [kind for kind in KINDS.values() if kind.api.rpartition("/")[0] == group]
    api = f"{group}/{version}" if group else version
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api, "resources": [*map(_kind, kinds)]}


def _kind(kind: Kind) -> Object:
    singular = kind.name.lower()
    return {
        "name": kind.plural,
        "singularName": singular,
        "namespaced": kind.namespaced,
        "kind": kind.name,
        "verbs": _VERBS,
    }
