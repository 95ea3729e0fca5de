"""vLLM on a cluster: who reaches the engine, who finds it, and what it is started with."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from ft_assets.settings.servers import ServersFile, load_servers
from ft_resources.kubernetes.names import METRICS_PORT
from tests.k8s.chart import K8S
from tests.k8s.kustomize import rendered
from tests.k8s.test_api import chosen
from tests.k8s.test_kustomize import BASE, by_name

VLLM = K8S / "kustomize" / "vllm"
OBJECTS = by_name(rendered(VLLM))
MONITORING = [
    each
    for name in ("network-policies", "pod-monitors")
    for each in yaml.safe_load_all((K8S / "monitoring" / f"{name}.yaml").read_text())
]
POD: dict[str, Any] = OBJECTS["Deployment", "ft-system", "vllm-llama"]["spec"]["template"]
LABELS: dict[str, str] = POD["metadata"]["labels"]
ENGINE, DOOR = POD["spec"]["containers"]
ROUTER = {"component": "ft-api"}


def policies() -> list[dict[str, Any]]:
    return [each["spec"] for each in [*rendered(BASE), *MONITORING] if each["kind"] == "NetworkPolicy"]


def ways(labels: dict[str, str], direction: str) -> list[dict[str, Any]]:
    """The rules of all policies for a pod with ``labels``."""
    found = [each for each in policies() if direction in each["policyTypes"] and chosen(each["podSelector"], labels)]
    return [rule for each in found for rule in each.get(direction.lower(), [])]


def environment() -> dict[str, str]:
    return dict(OBJECTS["ConfigMap", "ft-system", "vllm-llama"]["data"])


def test_no_object_leads_out_of_the_cluster() -> None:
    assert {namespace for _, namespace, _ in OBJECTS} == {"ft-system"}
    assert {kind for kind, _, _ in OBJECTS} == {"ServiceAccount", "ConfigMap", "Deployment", "Service"}
    assert OBJECTS["Service", "ft-system", "vllm-llama"]["spec"].get("type", "ClusterIP") == "ClusterIP"


def test_only_the_router_reaches_the_engine_and_prometheus_only_the_door_to_its_figures() -> None:
    (engine,) = [port["containerPort"] for port in ENGINE["ports"]]
    monitoring = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert ways(LABELS, "Ingress") == [
        {"from": [{"podSelector": {"matchLabels": ROUTER}}], "ports": [{"protocol": "TCP", "port": engine}]},
        {"from": [monitoring], "ports": [{"protocol": "TCP", "port": METRICS_PORT}]},
    ]
    assert [port["containerPort"] for port in DOOR["ports"]] == [METRICS_PORT]
    assert DOOR["command"][2:] == ["ft_assets.vllm_metrics", f"http://127.0.0.1:{engine}", str(METRICS_PORT)]


def test_the_router_has_a_way_to_the_engine_and_the_engine_none_to_the_code_location() -> None:
    to_engine = [rule for rule in ways(ROUTER, "Egress") if rule["ports"] == [{"protocol": "TCP", "port": 8000}]]
    assert [each["to"] for each in to_engine] == [[{"podSelector": {"matchLabels": {"component": "ft-server"}}}]]
    # Other pods of the namespace have none.
    others = [port["port"] for rule in ways({"component": "dagster-pages"}, "Egress") for port in rule["ports"]]
    assert 8000 not in others
    assert 4000 not in [port["port"] for rule in ways(LABELS, "Egress") for port in rule["ports"]]
    code = ways({"component": "user-deployments"}, "Ingress")
    assert not any(chosen(peer["podSelector"], LABELS) for rule in code for peer in rule["from"])


def test_prometheus_finds_it() -> None:
    (monitor,) = [each["spec"] for each in MONITORING if each["metadata"]["name"] == "ft-servers"]
    assert chosen(monitor["selector"], LABELS)
    assert monitor["namespaceSelector"] == {"matchNames": ["ft-system"]}
    (endpoint,) = monitor["podMetricsEndpoints"]
    assert endpoint["port"] in [port["name"] for port in DOOR["ports"]]


def test_its_labels_are_those_that_other_serving_stacks_select() -> None:
    expected = {
        "app.kubernetes.io/component": "serving-engine",
        "model": "llama",
        "llm-d.ai/inferenceServing": "true",
        "llm-d.ai/model": "llama",
        "serving.kserve.io/inferenceservice": "vllm-llama",
    }
    assert expected.items() <= LABELS.items()
    spec = OBJECTS["Deployment", "ft-system", "vllm-llama"]["spec"]
    selector = OBJECTS["Service", "ft-system", "vllm-llama"]["spec"]["selector"]
    assert selector == spec["selector"]["matchLabels"]
    assert selector.items() <= LABELS.items()


def test_the_server_is_the_one_that_servers_yaml_shows_and_the_base_lists_none() -> None:
    text = (BASE / "servers.yaml").read_text()
    shown = "\n".join(line.removeprefix("# ") for line in text.splitlines()[1:] if line.startswith("# "))
    (server,) = ServersFile.model_validate(yaml.safe_load(shown)).servers
    assert server.base == environment()["FT_VLLM_BASE"] == "hub:{MODEL}@{REVISION}".format(**environment())
    assert server.fetches
    assert (server.url, server.key) == ("http://vllm-llama.ft-system.svc:8000", "FT_SERVER_KEY_LLAMA")
    assert load_servers(BASE / "servers.yaml").servers == []
    (api,) = [each for each in rendered(BASE) if (each["kind"], each["metadata"]["name"]) == ("Deployment", "ft-api")]
    (container,) = api["spec"]["template"]["spec"]["containers"]
    assert {"name": "FT_SERVERS", "value": "/etc/ft/servers.yaml"} in container["env"]


def test_every_variable_of_its_options_is_set_and_adapters_can_be_loaded() -> None:
    named = set(re.findall(r"\$\((\w+)\)", " ".join(ENGINE["args"])))
    assert named <= environment().keys()
    assert "--enable-lora" in ENGINE["args"]
    assert {"name": "VLLM_ALLOW_RUNTIME_LORA_UPDATING", "value": "True"} in ENGINE["env"]
    shared = dict(line.split("=", 1) for line in (BASE / "environment.env").read_text().split())
    # The plug-in needs the store, and writes below a folder of the pod.
    mounts = [mount["mountPath"] for mount in ENGINE["volumeMounts"]]
    assert shared["FT_STORE"]
    assert any(shared["FT_CACHE"].startswith(f"{mount}/") for mount in mounts)
    assert {"configMapRef": {"name": "ft-environment"}} in ENGINE["envFrom"]


@pytest.mark.parametrize("container", [ENGINE, DOOR], ids=lambda each: each["name"])
def test_its_containers_are_non_root_with_a_read_only_root_and_limits(container: dict[str, Any]) -> None:
    assert POD["spec"]["securityContext"]["runAsNonRoot"]
    assert not POD["spec"]["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert container["image"].startswith("registry.example/ft-vllm@sha256:")
    assert all(volume["emptyDir"]["sizeLimit"] for volume in POD["spec"]["volumes"])


def test_its_image_is_vllms_own_by_digest_with_one_locked_package_and_the_project(tmp_path: Path) -> None:
    text = (K8S / "vllm.Dockerfile").read_text()
    assert "ARG BASE\nFROM ${BASE}" in text
    sent = {
        line[1:] for line in (K8S / "vllm.Dockerfile.dockerignore").read_text().splitlines() if line.startswith("!")
    }
    copied = {part for rest in re.findall(r"^COPY (.+)$", text, re.MULTILINE) for part in rest.split()[:-1]}
    assert copied == sent
    assert all((K8S.parent / name).exists() for name in copied)
    (command,) = re.findall(r"RUN (sed -n '.+?' platform\.txt)", text)
    taken = subprocess.run(command, shell=True, cwd=K8S / "locks", capture_output=True, text=True, check=True).stdout
    lines = taken.splitlines()
    assert lines[0].startswith("obstore==")
    assert all(line.strip().startswith("--hash=sha256:") for line in lines[1:])
    assert not lines[-1].endswith("\\")
