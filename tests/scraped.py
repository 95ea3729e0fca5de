"""Metrics as Prometheus would have scraped them, from the very collectors of the platform."""

import random
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from ft_assets.api import PlatformFigures
from ft_assets.control.metering.report import MonthReport
from ft_assets.server.metrics.platform import PlatformMetrics
from ft_assets.server.metrics.requests import RequestFigures
from ft_assets.server.metrics.shadows import ShadowFigures
from ft_assets.workers.serving.metrics import Metrics
from ft_assets.workers.serving.running import Figures
from ft_assets.workers.training.telemetry.prometheus import MetricsPage
from ft_resources.artifacts import Address
from ft_resources.work import WorkSpec

EVERY_S, SCRAPES = 15, 60
VARIABLES = {"tenant": "acme", "dataset": "acme.tickets.v1", "recipe": "support.v1"}


@dataclass
class _Engine:
    scrape: int = 0

    def figures(self) -> Figures:
        return Figures(running=3, waiting=1, prompt_tokens=500 * self.scrape, generation_tokens=90 * self.scrape)


def recorded(now: int) -> str:
    """``SCRAPES`` scrapes of an API, a server and a training, the last at ``now``, as OpenMetrics with times."""
    # By series and time: Prometheus leaves out a sample that is older than one it has.
    lines = sorted(_lines(now), key=lambda line: line.rsplit(" ", 2)[::2])
    return "".join(f"{line}\n" for line in lines) + "# EOF\n"


def _lines(now: int) -> Iterator[str]:
    requests, engine, drawn = RequestFigures(), _Engine(), random.Random(1)
    servers = CollectorRegistry()
    servers.register(Metrics(engine))
    page = MetricsPage(_spec(), 0)
    at = 0.0
    platform = PlatformMetrics(lambda: figures(at))
    requests.registry.register(platform)
    shadows = ShadowFigures(requests.registry)
    for scrape in range(SCRAPES):
        at, engine.scrape = now - EVERY_S * (SCRAPES - 1 - scrape), scrape
        platform.look()
        for result, number in (("answered", 20), ("failed", 1), ("busy", 2), ("dropped", 1)):
            for _ in range(number):
                shadows.add(result)
        for route in ("/v1/models", "/v1/chat/completions"):
            requests.add("POST", route, 200, drawn.uniform(0.001, 0.2))
        requests.add("GET", "/v1/files/{file_id}", 404, 0.002)
        page.show(_row(scrape))
        for registry, pod in ((requests.registry, "ft-api-1"), (servers, "ft-server-1")):
            yield from _samples(generate_latest(registry).decode(), pod, int(at))
        yield from _samples(_read(page), "worker-1", int(at))
    page.close()


def _read(page: MetricsPage) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{page.port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def _samples(text: str, pod: str, at: int) -> Iterator[str]:
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in {**each.labels, "pod": pod}.items())
            yield f"{each.name}{{{labels}}} {each.value} {at}"


def figures(at: float, problems: tuple[str, ...] = ()) -> PlatformFigures:
    """A tenant with work of every kind."""
    month = MonthReport(
        tenant="acme",
        month="2026-11",
        jobs={"accepted": 3, "failed": 1},
        success_rate=0.75,
        attempts=4,
        gpu_hours=10.0,
        billed_hours=7.5,
        refunded_hours=2.5,
        flagged_hours=0.5,
        overage_hours=1.0,
        cost=30.0,
        currency="USD",
        by_outcome={},
    )
    return PlatformFigures(
        at=at,
        open={("acme", "queued"): 2, ("acme", "training"): 1},
        waiting_s={"acme": 90.0},
        alerted={"acme": 1},
        months=(month,),
        judged={("acme", "won"): 9, ("acme", "lost"): 4, ("acme", "unreached"): 1},
        problems=problems,
    )


def _row(step: int) -> Mapping[str, Any]:
    return {
        "step": step,
        "epoch": step / SCRAPES,
        "loss": 2.0 / (1 + step),
        "validation_loss": 2.1 / (1 + step),
        "grad_norm": 0.7,
        "learning_rate": 2e-4,
        "tokens_per_s": 5e4,
        "data_wait_s": 0.01,
        "mfu": 0.41,
        "gpu_memory_gib": 40.0,
        "gpu_reserved_gib": 44.0,
        "gpu_utilisation": 0.97,
        "host_memory_gib": 11.0,
        "alerts": 0,
    }


def _spec() -> WorkSpec:
    return WorkSpec(
        asset="checkpoint",
        store_url="/nowhere",
        address=Address(tenant=VARIABLES["tenant"], asset="checkpoint", fingerprint="ab" * 32),
        attempt=3,
        identity={},
        inputs={},
        params={},
        runtime={},
        label=f"{VARIABLES['dataset']}|{VARIABLES['recipe']}",
        actor="ann",
    )
