"""Alerts, dashboards and who may scrape: tried on Prometheus's own programs."""

import json
import re
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from ft_resources.kubernetes.names import METRICS_PORT
from ft_resources.kubernetes.platform import tenant_objects
from ft_resources.kubernetes.settings import KubernetesSettings
from tests.e2e.dagster_server import free_port, wait_for
from tests.k8s.chart import K8S
from tests.scraped import EVERY_S, SCRAPES, VARIABLES, recorded
from tools.dashboards import DASHBOARDS, FOLDER, dashboard, text_of
from tools.dashboards.panel import COLUMNS

MONITORING = K8S / "monitoring"
RULES = yaml.safe_load((MONITORING / "rules.yaml").read_text())["spec"]
ALERTS = [rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule]
QUERIES = [
    pytest.param(target["expr"], id=f"{name}: {panel['title']} {target['refId']}")
    for name in DASHBOARDS
    for panel in dashboard(name)["panels"]
    for target in panel["targets"]
]


def promtool(*arguments: str | Path) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rules as Prometheus reads them; the operator takes them from their object."""
    found = tmp_path_factory.mktemp("rules") / "rules.yaml"
    found.write_text(yaml.safe_dump(RULES))
    return found


def series(text: str, values: str) -> dict[str, str]:
    return {"series": text, "values": values}


QUIET = [
    series('up{job="monitoring/ft-api"}', "1x1600"),
    series("ft_platform_looked_at_seconds", "0+60x1600"),
    series("ft_platform_unreadable_records", "0x1600"),
    series('ft_submissions_open{tenant="acme",state="training"}', "1x1600"),
    series('ft_submissions_open{tenant="acme",state="queued"}', "1x1600"),
    series('ft_submissions_oldest_queued_seconds{tenant="acme"}', "1000x1600"),
    series('ft_trainings_alerted{tenant="acme"}', "0x1600"),
    series('ft_http_requests_total{status="200"}', "0+600x1600"),
    series('ft_http_requests_total{status="500"}', "0+1x1600"),
    series('ft_http_request_seconds_bucket{route="/v1/models",le="0.1"}', "0+600x1600"),
    series('ft_http_request_seconds_bucket{route="/v1/models",le="5"}', "0+600x1600"),
    series('ft_http_request_seconds_bucket{route="/v1/models",le="+Inf"}', "0+600x1600"),
    series('ft_month_jobs{tenant="acme",outcome="failed"}', "0+1x1600"),
    series('ft_month_jobs{tenant="acme",outcome="accepted"}', "0+2x1600"),
    series('ft_month_gpu_seconds{tenant="acme",kind="flagged"}', "0x1600"),
    series('vllm:num_requests_waiting{pod="one"}', "0x1600"),
    series('ft_shadow_copies_total{result="answered"}', "0+60x1600"),
    series('ft_shadow_copies_total{result="failed"}', "0+2x1600"),
    series('ft_shadow_copies_total{result="dropped"}', "0+2x1600"),
    series('ft_day_verdicts{tenant="acme",result="unreached"}', "2x1600"),
]
"""A day and more in which nothing is wrong, one value a minute."""
WRONG: dict[str, list[dict[str, str]]] = {
    "FtApiDown": [series('up{job="monitoring/ft-api"}', "0x1600")],
    "FtApiFails": [series('ft_http_requests_total{status="500"}', "0+20x1600")],
    "FtApiSlow": [series('ft_http_request_seconds_bucket{route="/v1/models",le="0.1"}', "0+100x1600")],
    "FtPlatformUnseen": [series("ft_platform_looked_at_seconds", "0x1600")],
    "FtRecordsUnreadable": [series("ft_platform_unreadable_records", "2x1600")],
    "FtQueueStuck": [series('ft_submissions_oldest_queued_seconds{tenant="acme"}', "5000x1600")],
    "FtNothingIsLaunched": [series('ft_submissions_open{tenant="acme",state="training"}', "0x1600")],
    "FtTrainingAlerted": [series('ft_trainings_alerted{tenant="acme"}', "1x1600")],
    "FtManyFail": [series('ft_month_jobs{tenant="acme",outcome="accepted"}', "5x1600")],
    "FtFlaggedAttempts": [series('ft_month_gpu_seconds{tenant="acme",kind="flagged"}', "1800x1600")],
    "FtShadowCopiesLost": [series('ft_shadow_copies_total{result="dropped"}', "0+20x1600")],
    "FtJudgeUnreached": [series('ft_day_verdicts{tenant="acme",result="unreached"}', "0+0.2x1600")],
    "FtServerQueue": [series('vllm:num_requests_waiting{pod="one"}', "40x1600")],
}


def firing(rules: Path, wrong: list[dict[str, str]], expected: set[str], *, minutes: int, folder: Path) -> None:
    """Whether exactly ``expected`` fire after ``minutes`` in which everything but ``wrong`` is well."""
    changed = {each["series"] for each in wrong}
    test = {
        "interval": "1m",
        "input_series": [*wrong, *(each for each in QUIET if each["series"] not in changed)],
        "promql_expr_test": [
            {
                "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                "eval_time": f"{minutes}m",
                "exp_samples": [{"labels": f'{{alertname="{each}"}}', "value": 1} for each in sorted(expected)],
            }
        ],
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(rules)], "evaluation_interval": "1m", "tests": [test]}))
    promtool("test", "rules", file)


@pytest.mark.prometheus
def test_prometheus_reads_the_rules(rules: Path) -> None:
    promtool("check", "rules", rules)


@pytest.mark.prometheus
def test_nothing_fires_while_all_is_well(rules: Path, tmp_path: Path) -> None:
    firing(rules, [], set(), minutes=25 * 60, folder=tmp_path)


def test_each_alert_has_a_case_that_makes_it_fire() -> None:
    assert set(WRONG) == {each["alert"] for each in ALERTS}


@pytest.mark.prometheus
@pytest.mark.parametrize("alert", WRONG)
def test_an_alert_fires_alone_where_something_is_wrong(alert: str, rules: Path, tmp_path: Path) -> None:
    minutes = 25 * 60 if alert == "FtFlaggedAttempts" else 3 * 60
    firing(rules, WRONG[alert], {alert}, minutes=minutes, folder=tmp_path)


def failures(*outcomes: tuple[str, str]) -> list[dict[str, str]]:
    """What two replicas of the API tell of a tenant's jobs this month, by outcome; of others nothing is told."""
    jobs = 'ft_month_jobs{{tenant="acme",outcome="{}"{}}}'
    absent = [series(jobs.format(outcome, ""), "_x1600") for outcome in ("failed", "accepted")]
    pods = [f',pod="{pod}"' for pod in ("one", "two")]
    return [*absent, *(series(jobs.format(outcome, pod), values) for pod in pods for outcome, values in outcomes)]


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("told", "expected"),
    [
        # Two failures and one success in the last hour, however many replicas tell of them.
        (failures(("failed", "0+0.0333x1600"), ("accepted", "0+0.0167x1600")), set()),
        # One in ten minutes, and nothing of another outcome in the month.
        (failures(("failed", "0+0.1x1600")), {"FtManyFail"}),
        (failures(("failed", "0+0.1x1600"), ("accepted", "0+0.2x1600")), set()),
    ],
)
def test_failures_are_counted_once_and_also_where_nothing_succeeds(
    told: list[dict[str, str]], expected: set[str], rules: Path, tmp_path: Path
) -> None:
    firing(rules, told, expected, minutes=3 * 60, folder=tmp_path)


@pytest.mark.prometheus
@pytest.mark.parametrize(
    ("copies", "expected"),
    [
        ([("answered", "0+10x1600"), ("failed", "0+10x1600")], {"FtShadowCopiesLost"}),
        # One in an hour says little.
        ([("answered", "0x1600"), ("failed", "0+0.02x1600"), ("dropped", "0x1600")], set()),
    ],
)
def test_lost_copies_raise_an_alert_where_there_are_some(
    copies: list[tuple[str, str]], expected: set[str], rules: Path, tmp_path: Path
) -> None:
    told = [series(f'ft_shadow_copies_total{{result="{result}"}}', values) for result, values in copies]
    firing(rules, told, expected, minutes=3 * 60, folder=tmp_path)


def test_each_alert_says_what_is_wrong_and_what_to_do() -> None:
    for each in ALERTS:
        assert set(each["annotations"]) == {"summary", "remedy"}
        assert each["labels"]["severity"] in ("warning", "critical")


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_dashboard_is_as_its_list_of_panels_says(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == text_of(name), "python -m tools.dashboards"
    found = json.loads(text_of(name))
    variables = {each["name"] for each in found["templating"]["list"]}
    for panel in found["panels"]:
        for target in panel["targets"]:
            assert set(re.findall(r"\$(\w+)", target["expr"])) <= variables


@pytest.mark.parametrize("name", DASHBOARDS)
def test_panels_fill_each_row_of_a_dashboard(name: str) -> None:
    rows = defaultdict[int, list[dict[str, int]]](list)
    for panel in dashboard(name)["panels"]:
        rows[panel["gridPos"]["y"]].append(panel["gridPos"])
    for row in rows.values():
        assert sum(each["w"] for each in row) == COLUMNS
        assert len({each["h"] for each in row}) == 1


def test_a_limit_of_a_panel_is_that_of_an_alert() -> None:
    bounds = {float(bound) for each in ALERTS for bound in re.findall(r"> ([\d.]+)", each["expr"])}
    limits = {panel.limit for board in DASHBOARDS.values() for panel in board.panels if panel.limit is not None}
    # Of what is counted, an alert that begins above 0 begins at 1.
    assert {0.0 if limit == 1 else limit for limit in limits} <= bounds


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a Prometheus that holds what was scraped in the last quarter of an hour."""
    folder = tmp_path_factory.mktemp("prometheus")
    (folder / "metrics.txt").write_text(recorded(int(time.time())))
    promtool("tsdb", "create-blocks-from", "openmetrics", folder / "metrics.txt", folder / "data")
    (folder / "prometheus.yml").write_text("{}")
    port = free_port()
    settings = {
        "config.file": folder / "prometheus.yml",
        "storage.tsdb.path": folder / "data",
        "web.listen-address": f"127.0.0.1:{port}",
    }
    command = ["prometheus", *(f"--{name}={value}" for name, value in settings.items())]
    with (folder / "log").open("w") as log, subprocess.Popen(command, stdout=log, stderr=log) as process:
        try:
            url = f"http://127.0.0.1:{port}"

            def up() -> bool:
                assert process.poll() is None, (folder / "log").read_text()
                return ready(url)

            wait_for(up, 600, "Prometheus", every_s=0.1)
            yield url
        finally:
            process.terminate()


def ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/-/ready").status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


@pytest.mark.subprocess
@pytest.mark.prometheus
@pytest.mark.parametrize("query", QUERIES)
def test_a_panels_query_finds_data(query: str, prometheus: str) -> None:
    for name, value in VARIABLES.items():
        query = query.replace(f"${name}", value)
    end = time.time()
    span = {"start": end - EVERY_S * SCRAPES, "end": end, "step": EVERY_S}
    answer = httpx.get(f"{prometheus}/api/v1/query_range", params={"query": query, **span}).json()
    assert answer["status"] == "success", answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    assert found
    assert all(each["values"] for each in found)


def test_prometheus_reaches_the_metrics_of_tenants_only_where_the_settings_name_it() -> None:
    base = yaml.safe_load((K8S / "kustomize" / "base" / "kubernetes.yaml").read_text())

    def ingress(settings: KubernetesSettings) -> list[dict[str, Any]]:
        objects = tenant_objects(settings, "acme")
        policies = [each["spec"] for each in objects if each["kind"] == "NetworkPolicy"]
        return [rule for each in policies for rule in each.get("ingress", [])]

    assert ingress(KubernetesSettings.model_validate(base)) == []
    (rule,) = ingress(KubernetesSettings.model_validate({**base, "monitoring_namespace": "monitoring"}))
    source = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    assert rule == {"from": [source], "ports": [{"protocol": "TCP", "port": METRICS_PORT}]}
