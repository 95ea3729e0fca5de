"""What Kustomize makes of a folder: by its own program where there is one, and always by the part of it that we use.

The part is written down here so that a machine without ``kubectl`` checks the same; where there is one, both have to
say the same. Whatever a kustomization says that is not known here is an error, as it would be rendered by nobody.
"""

import copy
import subprocess
from pathlib import Path
from typing import Any

import yaml

from tests.k8s.programs import program as found

Manifest = dict[str, Any]
_KEYS = {"apiVersion", "kind", "namespace", "resources", "configMapGenerator", "generatorOptions", "patches", "images"}
# Not admission policies: Kustomize gives them a namespace, which the API server drops.
_CLUSTER_WIDE = {"Namespace", "ClusterRole", "ClusterRoleBinding"}


def program() -> list[str] | None:
    """The command that renders a folder, None where this machine has none."""
    if kustomize := found("kustomize"):
        return [kustomize, "build"]
    kubectl = found("kubectl")
    return [kubectl, "kustomize"] if kubectl else None


def rendered_by(command: list[str], folder: Path) -> list[Manifest]:
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def rendered(folder: Path) -> list[Manifest]:
    """Every object of ``folder``: resources in order, then generated ConfigMaps, patched, in the namespace."""
    said = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(said) <= _KEYS, f"{folder}: {sorted(set(said) - _KEYS)}"
    assert (said["apiVersion"], said["kind"]) == ("kustomize.config.k8s.io/v1beta1", "Kustomization")
    assert said.get("generatorOptions", {}) == {"disableNameSuffixHash": True}
    found: list[Manifest] = []
    for name in said.get("resources", []):
        at = folder / name
        found += rendered(at.resolve()) if at.is_dir() else yaml.safe_load_all(at.read_text())
    for generator in said.get("configMapGenerator", []):
        _generate(found, generator, folder)
    for patch in said.get("patches", []):
        _patch(found, patch)
    for image in said.get("images", []):
        _name_image(found, image)
    namespace = said.get("namespace")
    for manifest in found:
        if namespace and manifest["kind"] not in _CLUSTER_WIDE:
            manifest["metadata"]["namespace"] = namespace
    return found


def _generate(found: list[Manifest], said: dict[str, Any], folder: Path) -> None:
    assert set(said) <= {"name", "namespace", "behavior", "envs", "files", "literals", "options"}, said
    assert set(said.get("options", {})) <= {"labels"}
    lines = [line for name in said.get("envs", []) for line in (folder / name).read_text().splitlines()]
    pairs = [line for line in lines if line and not line.startswith("#")] + said.get("literals", [])
    data = dict(pair.split("=", 1) for pair in pairs)
    data |= {Path(name).name: (folder / name).read_text() for name in said.get("files", [])}
    there = [each for each in found if each["kind"] == "ConfigMap" and each["metadata"]["name"] == said["name"]]
    if said.get("behavior", "create") == "merge":
        (before,) = there
        assert before["metadata"].get("namespace") == said.get("namespace"), said["name"]
        before["data"] |= data
        return
    assert said.get("behavior", "create") == "create"
    assert not there, said["name"]
    metadata = {key: said[key] for key in ("name", "namespace") if key in said} | said.get("options", {})
    found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _patch(found: list[Manifest], said: dict[str, Any]) -> None:
    """JSON patches (RFC 6902) that replace what is there, at one target."""
    assert set(said) == {"target", "patch"}, said
    assert set(said["target"]) == {"kind", "name"}
    wanted = (said["target"]["kind"], said["target"]["name"])
    (target,) = [each for each in found if (each["kind"], each["metadata"]["name"]) == wanted]
    for step in yaml.safe_load(said["patch"]):
        assert set(step) == {"op", "path", "value"}, step
        assert step["op"] == "replace"
        *parents, last = [part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:]]
        at: Any = target
        for part in parents:
            at = at[_key(at, part)]
        assert not isinstance(at, dict) or last in at, step["path"]
        at[_key(at, last)] = copy.deepcopy(step["value"])


def _key(at: Any, part: str) -> str | int:
    return int(part) if isinstance(at, list) else part


def _name_image(found: list[Manifest], said: dict[str, Any]) -> None:
    """Another name and digest for an image, in every container."""
    assert set(said) == {"name", "newName", "digest"}, said
    for manifest in found:
        for container in manifest.get("spec", {}).get("template", {}).get("spec", {}).get("containers", []):
            if container["image"].partition("@")[0] == said["name"]:
                container["image"] = f"{said['newName']}@{said['digest']}"
