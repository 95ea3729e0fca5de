"""Every YAML file below k8s/ on a cluster: accepted by it, and nothing that it points to is missing there."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import jsonschema
import pytest
import yaml

from ft_assets.vllm_plugin import StoreResolver, register
from ft_resources.kubernetes.settings_file import read_settings
from tests.cluster.cluster import Cluster
from tests.cluster.kueue_schemas import PODS_READY
from tests.cluster.objects import (
    BUDGETS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    INGRESSES,
    NAMESPACES,
    POD_MONITORS,
    SERVICE_ACCOUNTS,
    SERVICES,
)
from tests.k8s.applied import apply, environment_of, found
from tests.k8s.chart import K8S
from tests.k8s.kustomize import rendered
from tests.k8s.test_api import chosen
from tools.architecture import ROOT

pytestmark = pytest.mark.cluster

BASE, VLLM, MONITORING = K8S / "kustomize" / "base", K8S / "kustomize" / "vllm", K8S / "monitoring"
KUEUE = K8S / "kueue"
OVERLAYS = sorted((K8S / "kustomize" / "overlays").iterdir())
PLATFORM = [BASE, VLLM, MONITORING, K8S / "kustomize" / "mlflow"]
# What Kubernetes does not read, and who does.
ELSEWHERE = {
    "helm/": "Helm, whose objects tests/k8s/test_helm.py compares with those that are applied here",
    "kustomize/base/flavours.yaml": "ft cluster manifests --flavours",
    "kueue/pods-ready.yaml": "Kueue's own configuration, whose schema is held against it below",
}
KUSTOMIZATION = "kustomization.yaml"
# ConfigMaps that Dagster's chart makes.
CHARTS_OWN = {"dagster-instance", "dagster-workspace-yaml"}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """With the base, a server of models, MLflow and the monitors, in the order in which the guides apply them."""
    made = Cluster(nodes=0)
    # That of the Prometheus operator.
    apply(made, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}])
    for folder in PLATFORM:
        apply(made, rendered(folder))
    apply(made, yaml.safe_load_all((KUEUE / "multikueue.yaml").read_text()))
    yield made
    made.close()


def pods(cluster: Cluster) -> dict[str, dict[str, Any]]:
    """The pods that Deployments make, by the Deployment's name."""
    return {each["metadata"]["name"]: each["spec"]["template"] for each in cluster.objects.list(DEPLOYMENTS)}


def containers(cluster: Cluster) -> list[dict[str, Any]]:
    return [container for pod in pods(cluster).values() for container in pod["spec"]["containers"]]


def test_every_yaml_file_is_on_the_cluster_or_named_as_what_kubernetes_does_not_read(cluster: Cluster) -> None:
    files = {path.relative_to(K8S).as_posix(): path for path in K8S.rglob("*.y*ml")}
    missing = [name for name, path in files.items() if not _is_applied(cluster, path) and not _is_elsewhere(name)]
    assert missing == [], f"apply {missing} in this test, or say in ELSEWHERE who reads them"
    # What is named is there, and Kubernetes could not read it.
    for known in ELSEWHERE:
        read_by_others = [path for name, path in files.items() if name.startswith(known)]
        assert read_by_others
        assert not any(_is_applied(cluster, path) for path in read_by_others)


def _is_elsewhere(name: str) -> bool:
    return any(name.startswith(known) for known in ELSEWHERE)


def _is_applied(cluster: Cluster, path: Path) -> bool:
    if path.name == KUSTOMIZATION:
        return path.parent in [*PLATFORM, *OVERLAYS]
    if path.parent not in [*PLATFORM, KUEUE]:
        return False
    text = path.read_text()
    if text in [each for held in cluster.objects.list(CONFIG_MAPS) for each in held["data"].values()]:
        return True
    objects = list(yaml.safe_load_all(text))
    return all("apiVersion" in each and found(cluster, each) is not None for each in objects)


def test_kueue_takes_the_part_of_its_configuration_and_waits_longer_than_the_platform_for_lost_nodes() -> None:
    (said,) = yaml.safe_load((KUEUE / "pods-ready.yaml").read_text()).items()
    assert said[0] == "waitForPodsReady"
    jsonschema.validate(said[1], PODS_READY)
    minutes = {name: int(said[1][name].removesuffix("m")) for name in ("timeout", "recoveryTimeout")}
    settings = read_settings(str(BASE / "kubernetes.yaml"))
    assert minutes["recoveryTimeout"] * 60 > settings.node_loss_s
    assert minutes["timeout"] * 60 > settings.image_pull_timeout_s
    assert said[1]["blockAdmission"] is False


def test_multikueues_objects_lead_to_each_other(cluster: Cluster) -> None:
    objects = {each["kind"]: each for each in yaml.safe_load_all((KUEUE / "multikueue.yaml").read_text())}
    check, config, other = (objects[kind] for kind in ("AdmissionCheck", "MultiKueueConfig", "MultiKueueCluster"))
    assert check["spec"]["controllerName"] == "kueue.x-k8s.io/multikueue"
    assert check["spec"]["parameters"] == {
        "apiGroup": "kueue.x-k8s.io",
        "kind": config["kind"],
        "name": config["metadata"]["name"],
    }
    assert config["spec"]["clusters"] == [other["metadata"]["name"]]


@pytest.mark.parametrize("folder", OVERLAYS, ids=lambda folder: folder.name)
def test_an_overlay_is_accepted_by_a_cluster_of_its_own(folder: Path) -> None:
    own = Cluster(nodes=0)
    apply(own, rendered(folder))
    assert len(own.objects.list(DEPLOYMENTS)) == 2
    own.close()


def test_pods_find_their_accounts_and_settings_and_the_guides_create_their_secrets(cluster: Cluster) -> None:
    guides = "".join((ROOT / "docs" / page).read_text() for page in ("start/cluster.md", "how-to/mlflow.md"))
    # The guide's server of models has another name than Kustomize's example.
    created = set(re.findall(r"create secret (?:generic|tls) (\S+)", guides.replace("vllm-qwen", "vllm-llama")))
    accounts = {each["metadata"]["name"] for each in cluster.objects.list(SERVICE_ACCOUNTS, "ft-system")}
    settings = {each["metadata"]["name"] for each in cluster.objects.list(CONFIG_MAPS, "ft-system")} | CHARTS_OWN
    for name, pod in pods(cluster).items():
        assert pod["spec"]["serviceAccountName"] in accounts, name
        assert set(_named(pod, "configMap")) <= settings, name
        assert set(_named(pod, "secret")) <= created, name


def _named(tree: Any, kind: str) -> Iterator[str]:
    """Names of all objects of a kind that containers and volumes refer to: ``configMap``, ``configMapRef`` …"""
    if isinstance(tree, list):
        for each in tree:
            yield from _named(each, kind)
    elif isinstance(tree, dict):
        for key, value in tree.items():
            if key in (kind, f"{kind}Ref", f"{kind}KeyRef"):
                yield value["name"]
            else:
                yield from _named(value, kind)


def test_services_budgets_ingresses_and_monitors_lead_to_ports_of_pods(cluster: Cluster) -> None:
    made = [(pod["metadata"]["labels"], pod["spec"]["containers"]) for pod in pods(cluster).values()]

    def ports(selector: dict[str, Any]) -> set[str]:
        """Names of the ports of all pods that are selected."""
        selected = [held for labels, held in made if chosen(selector, labels)]
        return {port["name"] for held in selected for container in held for port in container["ports"]}

    services = {each["metadata"]["name"]: each["spec"] for each in cluster.objects.list(SERVICES)}
    for name, spec in services.items():
        wanted = {each["targetPort"] for each in spec["ports"]}
        assert wanted <= ports({"matchLabels": spec["selector"]}), name
    for budget in cluster.objects.list(BUDGETS):
        assert ports(budget["spec"]["selector"]), budget["metadata"]["name"]
    for ingress in cluster.objects.list(INGRESSES):
        for rule in ingress["spec"]["rules"]:
            for path in rule["http"]["paths"]:
                backend = path["backend"]["service"]
                assert backend["port"]["name"] in {each["name"] for each in services[backend["name"]]["ports"]}
    monitors = {each["metadata"]["name"]: each["spec"] for each in cluster.objects.list(POD_MONITORS)}
    # Trainings are Jobs of the launcher: tests/k8s/test_monitoring.py looks at those.
    for name in set(monitors) - {"ft-trainings"}:
        wanted = {each["port"] for each in monitors[name]["podMetricsEndpoints"]}
        assert wanted <= ports(monitors[name]["selector"]), name
        assert set(monitors[name]["namespaceSelector"]["matchNames"]) <= {
            each["metadata"]["name"] for each in cluster.objects.list(NAMESPACES)
        }


def test_probes_ask_ports_that_their_container_has(cluster: Cluster) -> None:
    for container in containers(cluster):
        names = {port["name"] for port in container.get("ports", [])}
        probes = [container[each]["httpGet"] for each in container if "httpGet" in container[each]]
        assert {each["port"] for each in probes} <= names, container["name"]
    # As HttpServer.healthy asks.
    engine = next(each for each in containers(cluster) if each["name"] == "vllm")
    assert {engine[f"{each}Probe"]["httpGet"]["path"] for each in ("startup", "liveness", "readiness")} == {"/health"}


def test_the_engines_environment_is_what_the_plug_in_reads(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = next(each for each in containers(cluster) if each["name"] == "vllm")
    said = environment_of(cluster, "ft-system", engine)
    registered: dict[str, Any] = {}
    module: Any = ModuleType("vllm.lora.resolver")
    module.LoRAResolverRegistry = type("Registry", (), {"register_resolver": staticmethod(registered.__setitem__)})
    for name in ("vllm", "vllm.lora"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "vllm.lora.resolver", module)
    for name in ("FT_VLLM_BASE", "FT_STORE", "FT_CACHE", "FT_CACHE_MB"):
        monkeypatch.setenv(name, said[name])
    register()
    (resolver,) = registered.values()
    assert isinstance(resolver, StoreResolver)
    assert (resolver._base, resolver._store) == (said["FT_VLLM_BASE"], said["FT_STORE"])
    assert resolver._folders._root == Path(said["FT_CACHE"]) / "adapters"
    # What it may keep fits where it keeps it.
    (volume,) = [
        each
        for each in pods(cluster)["vllm-llama"]["spec"]["volumes"]
        for mount in engine["volumeMounts"]
        if mount["name"] == each["name"] and said["FT_CACHE"].startswith(f"{mount['mountPath']}/")
    ]
    assert resolver._folders._limit < int(volume["emptyDir"]["sizeLimit"].removesuffix("Gi")) << 30
