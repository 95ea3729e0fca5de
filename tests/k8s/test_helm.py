"""The chart as Helm renders it: the objects of Kustomize for the same settings, valid, and nothing for wrong ones."""

import json
import os
import re
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.k8s.chart import K8S, values
from tests.k8s.helm import HELM, copy_chart, helm, is_hook, objects, template
from tests.k8s.kustomize import Manifest, rendered
from tests.k8s.test_api import OBJECTS, chosen
from tests.k8s.test_kustomize import BASE, OVERLAYS, VERSION, by_name

pytestmark = pytest.mark.helm
VLLM = K8S / "kustomize" / "vllm"
MLFLOW = K8S / "kustomize" / "mlflow"
MONITORING = K8S / "monitoring"
# Kinds whose schemas are of the operators that read them.
FOREIGN = ("monitoring.coreos.com", "postgresql.cnpg.io", "kueue.x-k8s.io")
LLAMA = {
    "base": "hub:meta-llama/Llama-3.1-8B-Instruct@0e9e39f249a16976918f6564b8830bc894c89659",
    "annotations": {"eks.amazonaws.com/role-arn": "arn:aws:iam::123456789012:role/ft-vllm"},
}
ROLE = "eks.amazonaws.com/role-arn"
# What k8s/kustomize/overlays/example changes, as values.
EXAMPLE = {
    "image": {"repository": "registry.my-company.example/ft-control@sha256", "tag": "1" * 64},
    "accounts": {name: {ROLE: f"arn:aws:iam::210987654321:role/my-{name}"} for name in ("ft-control-plane", "ft-api")},
    "environment": {"FT_STORE": "s3://my-ft-bucket/root", "AWS_REGION": "us-east-1"},
    "api": {"ingressNetwork": "10.244.0.0/16"},
    "ingress": {"host": "ft.my-company.example"},
    # Its chart takes its own values.
    "dagster": {"enabled": False},
}


@pytest.fixture(scope="module")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_chart(tmp_path_factory.mktemp("chart"))


def installed(chart: Path, said: dict[str, Any] | None = None, *arguments: str) -> dict[tuple[str, str, str], Manifest]:
    """Without tests and what is in the place of Dagster's chart."""
    found = [each for each in objects(chart, said, *arguments) if not is_hook(each)]
    return by_name([each for each in found if each["metadata"]["name"] != "given"])


def kustomized(folder: Path) -> dict[tuple[str, str, str], Manifest]:
    """Without the namespace: Helm keeps its own records in it, so it is there before the release. And without the one
    that Kustomize gives admission policies, which belong to the whole cluster."""
    found = [each for each in rendered(folder) if each["kind"] != "Namespace"]
    for each in found:
        if each["kind"].startswith("ValidatingAdmission"):
            del each["metadata"]["namespace"]
    return by_name(found)


def test_the_chart_installs_what_kustomize_renders(chart: Path) -> None:
    assert installed(chart) == kustomized(BASE)


def test_the_example_overlay_and_the_same_values_are_one(chart: Path) -> None:
    (example,) = OVERLAYS
    assert installed(chart, EXAMPLE) == kustomized(example)


def test_monitors_rules_and_dashboards_are_those_of_kustomize(chart: Path) -> None:
    with_them = installed(chart, {"monitoring": {"enabled": True}})
    assert {key: with_them[key] for key in set(with_them) - set(installed(chart))} == kustomized(MONITORING)


def test_a_server_of_models_is_kustomizes_under_its_own_name(chart: Path) -> None:
    llama = installed(chart, {"vllm": {"servers": {"llama": LLAMA}}})
    assert {key: llama[key] for key in set(llama) - set(installed(chart))} == kustomized(VLLM)
    own = {"resources": {"limits": {"nvidia.com/gpu": "2"}}, "args": ["--tensor-parallel-size=2"]}
    revision = "b" * 40
    both = installed(
        chart, {"vllm": {"servers": {"llama": LLAMA, "qwen": {"base": f"hub:Qwen/Qwen3-8B@{revision}", **own}}}}
    )
    qwen = {key: both[key] for key in set(both) - set(llama)}
    assert "llama" not in str(qwen)
    (engine, door) = qwen["Deployment", "ft-system", "vllm-qwen"]["spec"]["template"]["spec"]["containers"]
    assert (engine["resources"], engine["args"][-1]) == (own["resources"], "--tensor-parallel-size=2")
    assert "nvidia.com/gpu" not in str(door)
    assert qwen["ConfigMap", "ft-system", "vllm-qwen"]["data"] == {
        "FT_VLLM_BASE": f"hub:Qwen/Qwen3-8B@{revision}",
        "MODEL": "Qwen/Qwen3-8B",
        "REVISION": revision,
    }


def test_mlflow_is_kustomizes_and_its_own_addresses_are_values(chart: Path) -> None:
    plain = installed(chart, {"mlflow": {"enabled": True}})
    assert {key: plain[key] for key in set(plain) - set(installed(chart))} == kustomized(MLFLOW)
    own = {"host": "runs.example", "environment": {"OAUTH2_PROXY_ALLOWED_GROUPS": "us"}}
    found = installed(chart, {"mlflow": {"enabled": True, **own}})
    data = found["ConfigMap", "ft-system", "ft-mlflow"]["data"]
    assert data["OAUTH2_PROXY_ALLOWED_GROUPS"] == "us"
    assert data["OAUTH2_PROXY_REDIRECT_URL"] == "https://runs.example/oauth2/callback"
    assert data["MLFLOW_SERVER_CORS_ALLOWED_ORIGINS"] == "https://runs.example"
    assert "mlflow.example.com" not in str(found)


def test_every_object_with_everything_on_is_valid(chart: Path) -> None:
    everything = {
        "monitoring": {"enabled": True},
        "vllm": {"servers": {"llama": LLAMA}},
        "mlflow": {"enabled": True},
        "database": {"enabled": True, "backup": {"retentionPolicy": "30d"}},
    }
    found = objects(chart, everything)
    for manifest in found:
        if not manifest["apiVersion"].startswith(FOREIGN):
            kubernetes_validate.validate(manifest, VERSION, strict=True)
    assert {each["apiVersion"].split("/")[0] for each in found} >= set(FOREIGN[:2])


def test_settings_come_from_the_files_that_the_command_line_reads(chart: Path, tmp_path: Path) -> None:
    (tmp_path / "tenants.yaml").write_text("# ours\ntenants:\n  umbrella: {}\n")
    found = installed(chart, None, "--set-file", f"settings.tenants={tmp_path / 'tenants.yaml'}")
    said = found["ConfigMap", "ft-system", "ft-settings"]["data"]
    assert said.pop("tenants.yaml") == (tmp_path / "tenants.yaml").read_text()
    assert said == {name: (BASE / name).read_text() for name in ("kubernetes.yaml", "models.yaml", "servers.yaml")}


def test_tenants_objects_are_installed_and_never_taken_away(chart: Path, tmp_path: Path) -> None:
    tenant = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ft-acme", "labels": {"a": "b"}}}
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ft-worker", "namespace": "ft-acme"}}
    (tmp_path / "objects.yaml").write_text(yaml.safe_dump_all([tenant, account]))
    found = installed(chart, None, "--set-file", f"tenants={tmp_path / 'objects.yaml'}")
    for given in (tenant, account):
        metadata: dict[str, Any] = given["metadata"]  # type: ignore[assignment]
        metadata["annotations"] = {"helm.sh/resource-policy": "keep"}
        assert found[str(given["kind"]), metadata.get("namespace", ""), metadata["name"]] == given


@pytest.mark.parametrize("separator", ["---\r\n", "--- \n"])
def test_no_object_is_lost_between_separators_that_other_programs_write(
    chart: Path, tmp_path: Path, separator: str
) -> None:
    names = ("ft-acme", "ft-globex")
    texts = [f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}}}\n" for name in names]
    (tmp_path / "objects.yaml").write_text(separator.join(["", *texts]), newline="")
    found = installed(chart, None, "--set-file", f"tenants={tmp_path / 'objects.yaml'}")
    assert [name for kind, _, name in found if kind == "Namespace"] == [*names]


def test_an_installation_without_an_ingress_has_none_and_knows_no_address(chart: Path) -> None:
    without = installed(chart, {"ingress": {"enabled": False}})
    assert set(installed(chart)) - set(without) == {("Ingress", "ft-system", "ft-api")}
    assert without["ConfigMap", "ft-system", "ft-environment"]["data"]["FT_PUBLIC_URL"] == ""


def test_a_variable_may_be_empty_and_an_account_without_annotations(chart: Path) -> None:
    own = {"iam.gke.io/gcp-service-account": "ft@example.iam.gserviceaccount.com"}
    said = {"environment": {"FT_TRACKING": ""}, "accounts": {"ft-control-plane": {ROLE: None, **own}, "ft-api": None}}
    found = installed(chart, said)
    assert found["ConfigMap", "ft-system", "ft-environment"]["data"]["FT_TRACKING"] == ""
    annotations = {
        name: found["ServiceAccount", "ft-system", name]["metadata"]["annotations"]
        for name in ("ft-control-plane", "ft-api")
    }
    assert annotations == {"ft-control-plane": own, "ft-api": {}}


def test_the_guides_own_lines_make_files_that_the_chart_takes(chart: Path, tmp_path: Path) -> None:
    page = (K8S.parent / "docs" / "start" / "cluster.md").read_text()
    blocks = {title: re.findall(r"```sh\n(.*?)```", text, re.DOTALL) for title, text in sections(page).items()}
    files, release = (blocks[title][0] for title in ("3. Files of your own", "7. Platform and tenants"))
    (function,) = re.findall(r"^platform\(\) \{\n.*?^\}\n", release, re.DOTALL | re.MULTILINE)
    mine = {"REGISTRY": "r.example/ml", "BUCKET": "ours", "REGION": "eu-west-9", "ACCOUNT": "210987654321"}
    mine |= {"DB_HOST": "db.example", "HOST": "tune.example", "INGRESS_NETWORK": "10.7.0.0/16"}
    mine |= {"DIGEST": f"sha256:{'c' * 64}", "CONTROL": f"sha256:{'d' * 64}", "MINE": str(tmp_path / "mine")}
    stand_in = 'helm() { shift 4; "$HELM" template dagster "$CHART" "$@"; }\n'
    code = f"set -eu\n{files}\n{stand_in}{function}platform --skip-tests"
    done = subprocess.run(
        ["bash", "-c", code], cwd=K8S.parent, text=True, capture_output=True, check=False,
        env=os.environ | mine | {"HELM": str(HELM), "CHART": str(chart)},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    text = done.stdout
    for gone in ("registry.example/ft", "0" * 64, "example.internal", "ft-example", "eu-central-1", "123456789012"):
        assert gone not in text, gone
    assert "ft.example.com" not in text
    for value in mine.values():
        assert value == mine["MINE"] or value.removeprefix("sha256:") in text


def sections(page: str) -> dict[str, str]:
    return {part.split("\n", 1)[0]: part for part in page.split("\n## ")[1:]}


def test_pages_behind_an_address_and_a_narrower_way_out_are_values(chart: Path) -> None:
    peers = [{"ipBlock": {"cidr": "10.9.0.0/16"}}]
    said = {"origin": "https://dagster.example.org", "envFrom": [{"secretRef": {"name": "ft-secrets"}}]}
    before, after = installed(chart), installed(chart, {"pages": said, "egress": peers})
    pages, outside = ("Deployment", "ft-system", "dagster-pages"), ("NetworkPolicy", "ft-system", "outside")
    assert {key for key in before if before[key] != after[key]} == {pages, outside}
    (container,) = after[pages]["spec"]["template"]["spec"]["containers"]
    assert container["command"][-1] == "--origin=https://dagster.example.org"
    assert container["envFrom"][-1] == {"secretRef": {"name": "ft-secrets"}}
    assert after[outside]["spec"]["egress"][0]["to"] == peers
    rules = [{"to": peers, "ports": [{"protocol": "TCP", "port": 9000}]}]
    more = installed(chart, {"egressRules": rules})[outside]["spec"]["egress"]
    assert more == [*before[outside]["spec"]["egress"], *rules]


def test_an_ingress_controller_may_be_elsewhere(chart: Path) -> None:
    nginx = [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "ingress-nginx"}}}]
    found = installed(chart, {"ingress": {"from": nginx}, "mlflow": {"enabled": True}})
    policies = [each["spec"] for each in found.values() if each["kind"] == "NetworkPolicy"]
    assert "'kubernetes.io/metadata.name': 'ingress'}" not in str(policies)
    doors = [rule["ports"][0]["port"] for spec in policies for rule in spec.get("ingress", []) if rule["from"] == nginx]
    assert sorted(doors) == [3000, 4180, 8000]


def test_dagsters_chart_is_given_our_values_and_can_be_left_out(chart: Path) -> None:
    (given,) = [each for each in objects(chart) if each["metadata"]["name"] == "given"]
    said = json.loads(given["data"]["values"])
    assert said == values() | {"global": said["global"]}
    assert said["global"] | values()["global"] == said["global"]
    left = objects(chart, {"dagster": {"enabled": False}})
    assert "given" not in {each["metadata"]["name"] for each in left}


@pytest.mark.parametrize(
    ("said", "who"),
    [
        ({"image": {"tag": "1" * 64}}, "fine-tuning"),
        ({"dagster": {"dagsterDaemon": {"image": {"tag": "1" * 64}}}}, "daemon"),
    ],
)
def test_an_upgrade_of_only_some_pods_is_refused(chart: Path, said: dict[str, Any], who: str) -> None:
    """Who overrides values instead of copying them may forget Dagster's."""
    done = template(chart, said)
    assert done.returncode != 0
    assert re.search(rf"the API is to run .*Dagster's {who} .*: name one image in all three places", done.stderr)


def test_the_dependency_is_the_version_of_dagster_that_is_installed() -> None:
    (said,) = yaml.safe_load((K8S / "helm" / "ft-platform" / "Chart.yaml").read_text())["dependencies"]
    assert f"dagster=={said['version']}" in (K8S.parent / "constraints.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("said", "place"),
    [
        ({"image": {"tag": "latest"}}, "image.tag"),
        ({"image": {"repository": "registry.example/ft"}}, "image.repository"),
        ({"ingress": {"host": "https://ft.example.com"}}, "ingress.host"),
        ({"ingres": {}}, "ingres"),
        ({"api": {"replicas": 0}}, "api.replicas"),
        ({"environment": {"FT_STORE": "my-bucket"}}, "environment.FT_STORE"),
        ({"environment": {"FT_METRICS": 1}}, "environment.FT_METRICS"),
        ({"accounts": {"ft-apis": {}}}, "ft-apis"),
        ({"vllm": {"servers": {"l": {"base": "hub:a/b@main"}}}}, "vllm.servers.l.base"),
        ({"settings": {"tenants": {"acme": {}}}}, "settings.tenants"),
        ({"ingress": {"className": ""}}, "ingress.className"),
        ({"vllm": {"image": {"pullPolicy": "Always"}}}, "vllm.image"),
        ({"vllm": {"servers": {"l" * 59: LLAMA}}}, "l" * 59),
    ],
)
def test_wrong_values_are_refused_by_their_place(chart: Path, said: dict[str, Any], place: str) -> None:
    """Helm 4 writes /image/tag, and Helm 3 image.tag."""
    done = template(chart, said)
    assert done.returncode != 0
    assert "meet the specifications of the schema" in done.stderr
    assert re.search(rf"\b{place}\b", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("release", "namespace", "told"),
    [("dagster", "apps", "namespace is ft-system, not apps"), ("ft", "ft-system", "release is called dagster, not ft")],
)
def test_another_namespace_or_name_is_refused(chart: Path, release: str, namespace: str, told: str) -> None:
    done = helm("template", release, chart, "--namespace", namespace)
    assert done.returncode != 0
    assert told in done.stderr


def test_every_value_is_described_to_the_schema_and_lint_finds_nothing(chart: Path) -> None:
    schema = json.loads((chart / "values.schema.json").read_text())
    assert set(yaml.safe_load((chart / "values.yaml").read_text())) | {"global"} == set(schema["properties"])
    done = helm("lint", chart, "--strict", "--namespace", "ft-system")
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_packed_chart_renders_the_same(chart: Path, tmp_path: Path) -> None:
    """It holds the files, not the links to them."""
    done = helm("package", chart, "--destination", tmp_path)
    assert done.returncode == 0, done.stderr
    (packed,) = tmp_path.glob("*.tgz")
    again = helm("template", "dagster", packed, "--namespace", "ft-system")
    assert by_name(list(yaml.safe_load_all(again.stdout))) == by_name(objects(chart))


def test_only_the_releases_test_has_a_way_to_the_api_while_it_runs(chart: Path) -> None:
    hooks = {each["metadata"]["name"]: each for each in objects(chart) if is_hook(each)}
    pod, out, into = (hooks.pop(name) for name in ("ft-ready", "ready-to-api", "api-from-ready"))
    assert not hooks
    ready, api = ({"podSelector": {"matchLabels": {"component": name}}} for name in ("ft-ready", "ft-api"))
    assert pod["metadata"]["labels"] == ready["podSelector"]["matchLabels"]
    (port,) = into["spec"]["ingress"][0]["ports"]
    (container,) = OBJECTS["Deployment", "ft-api"]["spec"]["template"]["spec"]["containers"]
    assert port["port"] == container["ports"][0]["containerPort"]
    assert out["spec"] == {**ready, "policyTypes": ["Egress"], "egress": [{"to": [api], "ports": [port]}]}
    assert into["spec"] == {**api, "policyTypes": ["Ingress"], "ingress": [{"from": [ready], "ports": [port]}]}
    for policy in (out, into):
        assert "hook-succeeded" in policy["metadata"]["annotations"]["helm.sh/hook-delete-policy"]


@pytest.mark.parametrize("status", [200, 503])
def test_the_releases_test_fails_where_the_api_is_not_ready(chart: Path, status: int) -> None:
    class Api(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == "/readyz" else 404)
            self.end_headers()

    (asks,) = re.findall(r"<<'END'\n(.*?)\nEND\n", (chart / "ready.sh").read_text(), re.DOTALL)
    with HTTPServer(("127.0.0.1", 0), Api) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        code = asks.replace("http://ft-api", f"http://127.0.0.1:{server.server_port}")
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        server.shutdown()
    assert f"API: {status}" in done.stdout, done.stderr
    assert (done.returncode == 0) is (status == 200)


@pytest.mark.subprocess
def test_the_releases_test_asks_dagster_by_commands_that_it_has(chart: Path) -> None:
    script = (chart / "ready.sh").read_text()
    (deployment,) = values()["dagster-user-deployments"]["deployments"]
    health = f"dagster api grpc-health-check --host {deployment['name']} --port {deployment['port']}"
    liveness = "dagster-daemon liveness-check"
    assert [line for line in script.splitlines() if line.startswith("dagster")] == [liveness, health]
    for command in (liveness, "dagster api grpc-health-check"):
        program, *arguments = command.split()
        line = [Path(sys.executable).parent / program, *arguments, "--help"]
        shown = subprocess.run(line, capture_output=True, text=True, check=True).stdout
    assert {"--host", "--port"} <= set(shown.replace(",", " ").split())


def test_clients_of_the_operators_database_reach_it_and_servers_of_models_do_not(chart: Path) -> None:
    found = installed(chart, {"database": {"enabled": True}})
    cluster = found["Cluster", "ft-system", "ft-postgresql"]["spec"]
    assert cluster["bootstrap"]["initdb"]["secret"]["name"] == values()["global"]["postgresqlSecretName"]
    assert cluster["bootstrap"]["initdb"]["owner"] == values()["postgresql"]["postgresqlUsername"]
    databases = {each["spec"]["name"] for each in found.values() if each["kind"] == "Database"}
    assert databases == {"ft_metering", "ft_access"}
    clients = found["NetworkPolicy", "ft-system", "to-database"]["spec"]["podSelector"]
    (asked, _) = found["NetworkPolicy", "ft-system", "database"]["spec"]["ingress"]
    assert asked == {"from": [{"podSelector": clients}], "ports": [{"protocol": "TCP", "port": 5432}]}
    assert not chosen(clients, {"component": "ft-server"})
    assert all(chosen(clients, {"component": name}) for name in ("ft-api", "dagster-pages", "user-deployments"))
