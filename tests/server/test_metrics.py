"""What Prometheus reads of the server: on a port of its own, in its own form, with no words of clients."""

import subprocess
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.error import URLError

import httpx
import pytest
from fastapi import FastAPI
from openai import NotFoundError, OpenAI
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ft_assets import api
from ft_assets.api import PlatformFigures
from ft_assets.api.figures import MONTHS_KEPT_S
from ft_assets.control.metering.usage import month_of, usage_folder
from ft_assets.server.metrics.page import metrics_page
from ft_assets.server.metrics.platform import PlatformMetrics
from ft_assets.server.metrics.requests import RequestFigures
from ft_resources.errors import CorruptArtifact, UserError
from tests.control.metering.test_quota import use
from tests.e2e.project import Project
from tests.scraped import figures

FIGURES = figures(1e9, problems=("acme/submissions/x.json: broken",))


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Each sample of a page, by its name and its labels' values in order of their names."""
    return {
        (each.name, *(value for _, value in sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


def test_requests_are_counted_by_route_and_status_and_by_nothing_that_a_client_writes(
    served: FastAPI, url: str, client: Callable[..., OpenAI]
) -> None:
    client().models.list()
    for name in ("file-1", "file-2"):
        with pytest.raises(NotFoundError):
            client().files.retrieve(name)
    httpx.request("BREW", f"{url}/models")
    httpx.get(f"{url}/nowhere")
    httpx.get(url.removesuffix("/v1") + "/console/sign-in")
    found = samples(generate_latest(served.state.figures.registry).decode())
    requests = {key[1:]: value for key, value in found.items() if key[0] == "ft_http_requests_total"}
    assert requests["GET", "/v1/models", "200"] == 1
    assert requests["GET", "/v1/files/{file_id}", "404"] == 2
    assert {key[0] for key in requests} <= {"GET", "other"}
    assert found["ft_http_request_seconds_count", "GET", "/v1/models"] == 1
    assert not any("file-1" in word or "nowhere" in word for key in requests for word in key)


def test_what_stands_is_told_for_each_tenant() -> None:
    requests = RequestFigures()
    platform = PlatformMetrics(lambda: FIGURES)
    requests.registry.register(platform)
    assert "ft_submissions_open" not in generate_latest(requests.registry).decode()
    platform.look()
    found = samples(generate_latest(requests.registry).decode())
    assert found["ft_submissions_open", "queued", "acme"] == 2
    assert found["ft_submissions_oldest_queued_seconds", "acme"] == 90
    assert found["ft_trainings_alerted", "acme"] == 1
    assert found["ft_month_jobs", "failed", "acme"] == 1
    assert found["ft_month_gpu_seconds", "flagged", "acme"] == 1800
    assert found["ft_month_cost", "USD", "acme"] == 30
    assert found["ft_day_verdicts", "lost", "acme"] == 4
    assert found[("ft_platform_unreadable_records",)] == 1


def test_a_look_that_fails_leaves_the_last_figures_with_their_time() -> None:
    answers: list[Any] = [FIGURES, UserError("the store is away")]

    def look() -> PlatformFigures:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    platform, requests = PlatformMetrics(look), RequestFigures()
    requests.registry.register(platform)
    platform.look()
    platform.look()
    found = samples(generate_latest(requests.registry).decode())
    assert found[("ft_platform_failed_looks",)] == 1
    assert found[("ft_platform_looked_at_seconds",)] == 1e9
    assert found["ft_submissions_open", "queued", "acme"] == 2


def test_the_page_has_a_port_of_its_own_and_goes_with_the_server(project: Project) -> None:
    with metrics_page(RequestFigures(), project.store, {"FT_METRICS_PORT": "0"}) as port:
        page = urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode()
    assert "ft_platform_failed_looks" in page
    with pytest.raises(URLError):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics")
    with metrics_page(RequestFigures(), project.store, {}) as none:
        assert none is None


@pytest.mark.parametrize("port", ["http", "70000", "-1"])
def test_a_port_that_cannot_be_had_is_an_error(project: Project, port: str) -> None:
    with (
        pytest.raises(UserError, match="FT_METRICS_PORT"),
        metrics_page(RequestFigures(), project.store, {"FT_METRICS_PORT": port}),
    ):
        pass


def test_open_work_is_counted_from_the_store(project: Project) -> None:
    before = api.platform_figures(store=project.store)
    assert not before.open
    dataset = str(api.add_dataset(project.dataset(), "acme.rows", store=project.store).key)
    api.submit(dataset, str(project.recipe()), store=project.store, actor="ann")
    found = api.platform_figures(store=project.store)
    assert found.open == {("acme", "queued"): 1}
    assert 0 <= found.waiting_s["acme"] < 60


def test_a_tenant_whose_usage_cannot_be_read_is_named_and_hides_no_other(project: Project) -> None:
    now = datetime.now(UTC)
    use(project.store, "checkpoint.f.0001", 2.0, at=now)
    broken = f"{usage_folder('aardvark', month_of(now))}/x.json"
    project.store.put(broken, b"{}")
    found = api.platform_figures(store=project.store)
    assert [(month.tenant, month.billed_hours) for month in found.months] == [("acme", pytest.approx(2.0))]
    assert [problem.partition(":")[0] for problem in found.problems] == [broken]
    with pytest.raises(CorruptArtifact, match="usage record"):
        api.usage(store=project.store)


def test_what_tenants_used_is_counted_anew_only_once_in_a_while_and_what_stands_at_each_look(project: Project) -> None:
    now = [0.0]
    look = api.PlatformLook(store=project.store, clock=lambda: now[0])

    def hours() -> list[float]:
        return [month.billed_hours for month in look().months]

    use(project.store, "checkpoint.f.0001", 2.0, at=datetime.now(UTC))
    assert hours() == [pytest.approx(2.0)]
    use(project.store, "checkpoint.f.0002", 1.0, at=datetime.now(UTC))
    dataset = str(api.add_dataset(project.dataset(), "acme.rows", store=project.store).key)
    api.submit(dataset, str(project.recipe()), store=project.store, actor="ann")
    now[0] = MONTHS_KEPT_S - 1
    assert hours() == [pytest.approx(2.0)]
    assert look().open == {("acme", "queued"): 1}
    now[0] = MONTHS_KEPT_S
    assert hours() == [pytest.approx(3.0)]


@pytest.mark.prometheus
def test_prometheus_takes_the_page() -> None:
    requests = RequestFigures()
    platform = PlatformMetrics(lambda: FIGURES)
    platform.look()
    requests.registry.register(platform)
    requests.add("GET", "/v1/models", 200, 0.01)
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=generate_latest(requests.registry), capture_output=True, check=False
    )
    assert (done.returncode, done.stderr.decode()) == (0, "")
