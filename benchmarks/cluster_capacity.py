"""The control plane at its largest: ticks of all sensors, listings and submissions beside a full queue of Jobs.

The world is that of the sensors' ticks (``benchmarks/ticks.py``: SQLite, a store in a folder), and the Jobs are those of
attempts in its store, queued on a test cluster.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from benchmarks import ticks
from benchmarks.cluster_world import cluster_with_queue, settings_file
from benchmarks.ticks_world import Platform, empty_platform
from ft_assets import api
from ft_assets.control.submissions.submit import submit
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.tenants import load_tenants
from ft_resources.attempts import Attempt
from ft_resources.dagster_resources import LauncherResource
from ft_resources.kubernetes.api import Api
from ft_resources.kubernetes.settings_file import read_settings
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.work import WorkSpec
from ft_sensors.ageing import ageing_sensor
from ft_sensors.orphans import orphans_sensor
from tests.resources.kubernetes.specs import spec_of

SUBMITTED, QUEUED = 500, 2_000
TICK_S = 60.0
"""What Dagster allows a sensor."""
_OF_CLUSTER: dict[str, dg.SensorDefinition] = {"orphans": orphans_sensor, "ageing": ageing_sensor}


@dataclass(frozen=True, kw_only=True)
class Capacity:
    """Seconds. ``ticks`` are the second of each sensor, beside ``first`` of a new process; ``launching`` the ticks that
    take up what was submitted."""

    first: dict[str, float]
    ticks: dict[str, float]
    submit_p99_s: float
    launching: list[float]
    launched: int
    listings: dict[str, float]


def capacity(folder: Path, *, submitted: int = SUBMITTED, queued: int = QUEUED) -> Capacity:
    """Measure with 10,000 lines, so many submissions in the queue and as many that arrive, and so many queued Jobs."""
    tenants = tuple(f"t{number:03d}" for number in range(ticks.TENANTS))
    with empty_platform() as platform, cluster_with_queue(gpus=0, tenants=tenants) as cluster:
        ticks.populate(platform, opened=submitted)
        settings = settings_file(folder, cluster)
        _queue(platform, settings, queued)
        launcher = LauncherResource(kind="kubernetes", settings=str(settings))

        def tick_all() -> dict[str, float]:
            found = {name: ticks.evaluate(platform, sensor) for name, sensor in ticks.SENSORS.items()}
            found |= {name: ticks.evaluate(platform, each, launcher=launcher) for name, each in _OF_CLUSTER.items()}
            return {name: tick.wall_s for name, tick in found.items()}

        first, again = tick_all(), tick_all()
        took = _submit(platform, submitted)
        launching, launched = _launch(platform)
        listings: dict[str, Callable[[], object]] = {
            "ft list": lambda: api.list_submissions(store=platform.store),
            "ft list --tenant": lambda: api.list_submissions(tenant=tenants[0], store=platform.store),
            "ft lines": lambda: api.list_lines(store=platform.store),
        }
        return Capacity(
            first=first,
            ticks=again,
            submit_p99_s=sorted(took)[int(0.99 * len(took))],
            launching=launching,
            launched=launched,
            listings={name: _timed(call) for name, call in listings.items()},
        )


def _queue(platform: Platform, settings: Path, queued: int) -> None:
    """Jobs that no GPU is there for, each of work that a run waits for."""
    launcher = KubernetesLauncher(read_settings(str(settings)), Api.connect())
    waited_for = [submission.dataset for submission in open_submissions(platform.store)]
    for number in range(queued):
        spec = _spec(platform, number, waited_for[number % len(waited_for)])
        attempt = Attempt(platform.store, spec.address, 1)
        attempt.claim("benchmark")
        attempt.write_spec(spec)
        attempt.mark_open(spec.label, spec.actor)
        launcher.launch(spec, attempt)


def _spec(platform: Platform, number: int, label: str) -> WorkSpec:
    store = platform.store
    spec = spec_of(tenant=label.partition(".")[0], inputs=0, store_url=store.url, layout=store.layout, gpus=1)
    address = spec.address.model_copy(update={"fingerprint": f"{number:08x}" * 8})
    return spec.model_copy(update={"address": address, "label": label})


def _submit(platform: Platform, submitted: int) -> list[float]:
    """Ask for so many pairs that nobody asked for before; seconds of each."""
    tenants, took = load_tenants(platform.tenants_file), list[float]()
    for number in range(submitted):
        dataset = f"t{number % ticks.TENANTS:03d}.d{number // ticks.TENANTS % ticks.DATASETS}.v1"
        began = time.monotonic()
        submit(
            platform.store, tenants, dataset=dataset, recipe="r000.v1", actor="benchmark", origin="cli",
            idempotency_key=str(number),
        )  # fmt: skip
        took.append(time.monotonic() - began)
    return took


def _launch(platform: Platform) -> tuple[list[float], int]:
    """Ticks that look at all open submissions once; their seconds, and how many runs they asked for."""
    took, launched, cursor = list[float](), 0, ""
    while cursor or not took:
        tick = ticks.evaluate(platform, ticks.SENSORS["submissions"], cursor=cursor)
        took.append(tick.wall_s)
        launched, cursor = launched + tick.launched, tick.cursor or ""
    return took, launched


def _timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began
