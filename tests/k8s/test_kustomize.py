"""The Kustomize base and overlay as they are rendered: whole, valid, and what an installation changes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.k8s.chart import K8S, values
from tests.k8s.kustomize import program, rendered, rendered_by

BASE = K8S / "kustomize" / "base"
OVERLAYS = sorted(folder for folder in (K8S / "kustomize" / "overlays").iterdir() if folder.is_dir())
VERSION = "1.36"


def by_name(objects: list[dict[str, Any]]) -> dict[tuple[str, str, str], dict[str, Any]]:
    found = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in objects}
    assert len(found) == len(objects)
    return found


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda folder: folder.name)
def test_every_rendered_object_is_in_its_namespace(folder: Path) -> None:
    objects = by_name(rendered(folder))
    for kind, namespace, _ in objects:
        assert namespace == ("" if kind in ("Namespace", "ClusterRole", "ClusterRoleBinding") else "ft-system")
    assert {kind for kind, _, _ in objects} == {
        "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "NetworkPolicy",
        "ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "Ingress", "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
    }  # fmt: skip


@pytest.mark.kubectl
@pytest.mark.parametrize(
    "folder",
    [BASE, *OVERLAYS, *(K8S / "kustomize" / name for name in ("vllm", "mlflow")), K8S / "monitoring"],
    ids=lambda folder: folder.name,
)
def test_kustomize_itself_renders_the_same(folder: Path) -> None:
    command = program()
    assert command is not None
    assert by_name(rendered_by(command, folder)) == by_name(rendered(folder))


def test_the_overlay_changes_the_store_the_roles_the_image_and_the_address_and_nothing_else() -> None:
    (example,) = OVERLAYS
    base, overlay = by_name(rendered(BASE)), by_name(rendered(example))
    assert set(base) == set(overlay)
    changed = {key for key in base if base[key] != overlay[key]}
    environment = ("ConfigMap", "ft-system", "ft-environment")
    api = ("ConfigMap", "ft-system", "ft-api")
    ingress = ("Ingress", "ft-system", "ft-api")
    accounts = {("ServiceAccount", "ft-system", name) for name in ("ft-control-plane", "ft-api")}
    pods = {("Deployment", "ft-system", name) for name in ("ft-api", "dagster-pages")}
    assert changed == {environment, api, ingress, *accounts, *pods}
    for key, names in ((environment, {"FT_STORE", "AWS_REGION", "FT_PUBLIC_URL"}), (api, {"INGRESS_NETWORK"})):
        before, after = base[key]["data"], overlay[key]["data"]
        assert {name for name in before if before[name] != after[name]} == names
    for _, _, name in accounts:
        assert f"my-{name}" in str(overlay["ServiceAccount", "ft-system", name]["metadata"]["annotations"])
    (host,) = overlay[ingress]["spec"]["tls"][0]["hosts"]
    assert overlay[environment]["data"]["FT_PUBLIC_URL"] == f"https://{host}"
    assert overlay[ingress]["spec"]["rules"][0]["host"] == host


def test_who_is_bound_and_what_pods_mount_is_rendered() -> None:
    objects = by_name(rendered(BASE))
    for (kind, namespace, _), manifest in objects.items():
        if kind in ("RoleBinding", "ClusterRoleBinding"):
            role = manifest["roleRef"]
            assert (role["kind"], namespace if role["kind"] == "Role" else "", role["name"]) in objects
            for subject in manifest["subjects"]:
                assert (subject["kind"], subject["namespace"], subject["name"]) in objects
    daemon = values()["dagsterDaemon"]
    mounted = [each["configMap"]["name"] for each in daemon["volumes"] if "configMap" in each]
    for name in [*mounted, *(each["name"] for each in daemon["envConfigMaps"])]:
        assert ("ConfigMap", "ft-system", name) in objects
    settings = objects["ConfigMap", "ft-system", "ft-settings"]["data"]
    assert all(yaml.safe_load(text) for text in settings.values())


def test_a_kustomization_that_says_more_than_is_checked_is_an_error(tmp_path: Path) -> None:
    said = yaml.safe_load((BASE / "kustomization.yaml").read_text())
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump({**said, "namePrefix": "x-"}))
    with pytest.raises(AssertionError, match="namePrefix"):
        rendered(tmp_path)
