"""The HTTP API and Dagster's pages as a cluster runs them: who reaches them, what they may do, and how they end."""

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from ft_assets.cli import pages, serve
from ft_assets.cli.main import app
from ft_assets.settings.models import load_models
from tests.k8s.chart import K8S, instance_config, values
from tests.k8s.kustomize import rendered

BASE = K8S / "kustomize" / "base"
OBJECTS = {(each["kind"], each["metadata"]["name"]): each for each in rendered(BASE)}
SERVED = ("ft-api", "dagster-pages")


def pod_of(name: str) -> dict[str, Any]:
    found: dict[str, Any] = OBJECTS["Deployment", name]["spec"]["template"]["spec"]
    return found


def container_of(name: str) -> dict[str, Any]:
    (found,) = pod_of(name)["containers"]
    return dict(found)


def policies_of(labels: dict[str, str], direction: str) -> list[dict[str, Any]]:
    """The policies that choose a pod with ``labels`` for Ingress or Egress."""
    policies = [each["spec"] for (kind, _), each in OBJECTS.items() if kind == "NetworkPolicy"]
    return [each for each in policies if direction in each["policyTypes"] and chosen(each["podSelector"], labels)]


def chosen(selector: dict[str, Any], labels: dict[str, str]) -> bool:
    if any(labels.get(key) != value for key, value in selector.get("matchLabels", {}).items()):
        return False
    expressions = selector.get("matchExpressions", [])
    assert all(each["operator"] == "NotIn" for each in expressions)
    return all(labels.get(each["key"]) not in each["values"] for each in expressions)


def labels_of(name: str) -> dict[str, str]:
    return dict(OBJECTS["Deployment", name]["spec"]["template"]["metadata"]["labels"])


@pytest.mark.parametrize("name", SERVED)
def test_only_the_ingress_reaches_a_door_and_at_its_one_port(name: str) -> None:
    rules = [rule for each in policies_of(labels_of(name), "Ingress") for rule in each.get("ingress", [])]
    port = next(each for each in container_of(name)["ports"] if each["name"] != "metrics")
    ingress = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress"}}}
    assert rules == [{"from": [ingress], "ports": [{"protocol": "TCP", "port": port["containerPort"]}]}]
    service = OBJECTS["Service", name]["spec"]
    assert service["selector"] == labels_of(name)
    assert [each["targetPort"] for each in service["ports"]] == [port["name"]]
    assert service.get("type", "ClusterIP") == "ClusterIP"


def test_the_api_has_no_way_to_the_code_location_and_runs_and_pages_have() -> None:
    """Its gRPC asks nobody who they are."""
    code = {"component": "user-deployments"}
    (rule,) = [rule for each in policies_of(code, "Ingress") for rule in each.get("ingress", [])]
    (peer,) = rule["from"]
    for labels, may in (({"component": "ft-api"}, False), ({"component": "dagster-pages"}, True), ({"run": "1"}, True)):
        assert chosen(peer["podSelector"], labels) is may
        ports = [port["port"] for each in policies_of(labels, "Egress") for way in each.get("egress", [])
                 for port in way["ports"]]  # fmt: skip
        assert (4000 in ports) is may


def test_the_charts_own_webserver_which_listens_for_everybody_has_no_pods() -> None:
    assert values()["dagsterWebserver"] == {"replicaCount": 0}
    assert all(not each.get("ingress") for each in policies_of({"component": "dagster-webserver"}, "Ingress"))


@pytest.mark.parametrize("name", SERVED)
def test_a_door_is_non_root_with_a_read_only_root_and_limits(name: str) -> None:
    container, pod = container_of(name), pod_of(name)
    chart = instance_config(values())["run_launcher"]["config"]
    assert container["securityContext"] == chart["security_context"]
    assert pod["securityContext"] == chart["run_k8s_config"]["pod_spec_config"]["securityContext"]
    assert container["resources"]["limits"]["memory"]
    assert container["image"].startswith("registry.example/ft-control@sha256:")
    writable = [each["mountPath"] for each in container["volumeMounts"] if not each.get("readOnly")]
    assert writable == ["/tmp"]
    assert all(volume["emptyDir"]["sizeLimit"] for volume in pod["volumes"] if "emptyDir" in volume)


@pytest.mark.parametrize("name", SERVED)
def test_a_doors_command_is_one_that_ft_takes_and_its_settings_are_mounted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    container, asked = container_of(name), list[dict[str, Any]]()
    module, function = (serve, "serve") if name == "ft-api" else (pages, "pages")
    takers = (*app.registered_commands, serve.app.registered_callback)
    command = next(each for each in takers if each.callback is getattr(module, function))
    # Options are parsed as they are written, and the work is not done.
    monkeypatch.setattr(command, "callback", _recorded(command.callback, asked))
    program, *arguments = container["command"]
    assert (program, CliRunner().invoke(app, arguments).exit_code) == ("ft", 0), shlex.join(arguments)
    port = next(each for each in container["ports"] if each["name"] != "metrics")
    assert (asked[0]["host"], asked[0]["port"]) == ("0.0.0.0", port["containerPort"])
    config_maps = {volume["configMap"]["name"] for volume in pod_of(name)["volumes"] if "configMap" in volume}
    assert config_maps - {"dagster-instance", "dagster-workspace-yaml"} == {"ft-settings"}
    mounts = {Path(each["mountPath"]) for each in container["volumeMounts"]}
    environment = dict(line.split("=", 1) for line in (BASE / "environment.env").read_text().split())
    environment |= {each["name"]: each["value"] for each in container["env"] if "value" in each}
    settings = OBJECTS["ConfigMap", "ft-settings"]["data"]
    for variable in ("FT_KUBERNETES", "FT_TENANTS", *({"FT_MODELS"} & environment.keys())):
        file = Path(environment[variable])
        assert file.parent in mounts
        assert file.name in settings
    assert Path(environment["DAGSTER_HOME"], "dagster.yaml") in mounts
    assert environment["DAGSTER_HOME"] == values()["global"]["dagsterHome"]
    if name == "dagster-pages":
        assert asked[0]["workspace"].parent in mounts


def _recorded(callback: Any, asked: list[dict[str, Any]]) -> Any:
    import functools

    @functools.wraps(callback)
    def record(**options: Any) -> None:
        asked.append(options)

    return record


def test_who_a_request_comes_from_is_believed_of_the_ingress_only() -> None:
    arguments = container_of("ft-api")["command"]
    assert arguments[arguments.index("--proxy") + 1] == "$(INGRESS_NETWORK)"
    data = OBJECTS["ConfigMap", "ft-api"]["data"]
    assert {"configMapRef": {"name": "ft-api"}} in container_of("ft-api")["envFrom"]
    assert data["INGRESS_NETWORK"] != "*"
    (host,) = OBJECTS["Ingress", "ft-api"]["spec"]["tls"][0]["hosts"]
    # Dagster's run pods have it too, as they write the addresses of reports.
    assert OBJECTS["ConfigMap", "ft-environment"]["data"]["FT_PUBLIC_URL"] == f"https://{host}"
    assert [each["host"] for each in OBJECTS["Ingress", "ft-api"]["spec"]["rules"]] == [host]


@pytest.mark.parametrize("name", SERVED)
def test_nothing_secret_is_written_down(name: str) -> None:
    environment = container_of(name)["env"]
    secrets = {each["name"] for each in environment if "valueFrom" in each}
    assert secrets == {"DAGSTER_PG_PASSWORD"} | ({"FT_PAGES_TOKEN"} if name == "dagster-pages" else set())
    assert all("secretKeyRef" in each["valueFrom"] for each in environment if "valueFrom" in each)
    plain = [each["data"] for (kind, _), each in OBJECTS.items() if kind == "ConfigMap"]
    for data in plain:
        assert not {"FT_ACCESS_DB", "FT_METERING_DB", "FT_OIDC_CLIENT_SECRET", "FT_PAGES_TOKEN"} & data.keys()


def test_requests_under_way_have_their_time_before_a_pod_is_killed() -> None:
    from ft_assets.server.serving import DRAIN_S

    pause_s = container_of("ft-api")["lifecycle"]["preStop"]["sleep"]["seconds"]
    # What is left is for files that are being settled.
    assert pod_of("ft-api")["terminationGracePeriodSeconds"] >= pause_s + DRAIN_S + 30


def test_one_server_is_there_through_a_rollout_a_drain_and_a_lost_node() -> None:
    deployment, budget = OBJECTS["Deployment", "ft-api"]["spec"], OBJECTS["PodDisruptionBudget", "ft-api"]["spec"]
    assert deployment["replicas"] >= 2
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert budget == {"maxUnavailable": 1, "selector": deployment["selector"]}
    (spread,) = pod_of("ft-api")["topologySpreadConstraints"]
    assert spread["topologyKey"] == "kubernetes.io/hostname"


def test_probes_ask_what_the_server_answers_and_wait_longer_than_it_does() -> None:
    from ft_assets.server import health

    container = container_of("ft-api")
    probes = {name: container[name] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert [each["httpGet"]["path"] for each in probes.values()] == ["/healthz", "/healthz", "/readyz"]
    assert probes["readinessProbe"]["timeoutSeconds"] > health._LIMIT_S


def test_the_api_may_look_and_stop_and_create_nothing() -> None:
    """What a KubernetesLauncher asks to say why a Job waits and to stop it, and Dagster's to end a run."""
    roles = {name: each["rules"] for (kind, name), each in OBJECTS.items() if kind in ("Role", "ClusterRole")}
    may = {name: {(resource, verb) for rule in roles[name] for resource in rule["resources"] for verb in rule["verbs"]}
           for name in ("ft-api", "ft-api-runs")}  # fmt: skip
    looks = {("jobs", "get"), ("jobs", "list"), ("jobs", "watch"), ("pods", "list"), ("pods/log", "get")}
    looks |= {("events", "list"), ("workloads", "list")}
    stops = {("jobs", "delete"), ("pods", "delete")}
    assert may == {"ft-api": looks | stops, "ft-api-runs": stops | {("pods", "list")}}
    bound = [
        (kind, each["roleRef"]["name"])
        for (kind, _), each in OBJECTS.items()
        if kind.endswith("RoleBinding") and "ft-api" in {subject["name"] for subject in each["subjects"]}
    ]
    assert bound == [("RoleBinding", "ft-api-runs")]


def test_the_offered_models_are_ones_that_the_server_reads() -> None:
    assert load_models(BASE / "models.yaml").models
    assert yaml.safe_load(OBJECTS["ConfigMap", "ft-settings"]["data"]["models.yaml"])["models"]
