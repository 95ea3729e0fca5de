"""The control plane at its largest: ticks of all sensors, listings and submissions beside a full queue of Jobs.

The world is that of the sensors' ticks (``benchmarks/ticks.py``: SQLite, a store in a folder). The Jobs are those of
attempts in its store, queued on a test cluster, which has a process of its own.
"""

import multiprocessing
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from benchmarks import ticks
from benchmarks.cluster_world import cluster_with_queue, settings_file
from benchmarks.table import Figure, bound_figure, goal_figure
from benchmarks.ticks_world import Platform, empty_platform, platform_at
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
    """What one process of the control plane took.

    Args:
        first: the first tick of each sensor.
        second: the next one.
        submit_s: each submission.
        launching: ticks that launch what was submitted.
        listings: seconds of each listing.
    """

    first: dict[str, ticks.Tick]
    second: dict[str, ticks.Tick]
    submit_s: list[float]
    launching: list[ticks.Tick]
    listings: dict[str, float]


def figures(folder: Path, *, submitted: int = SUBMITTED, queued: int = QUEUED) -> list[Figure]:
    found = capacity(folder, submitted=submitted, queued=queued)
    for name, tick in found.second.items():
        first = found.first[name]
        print(f"{name}: {first.wall_s:.2f} s, then {tick.wall_s:.2f} s ({tick.cpu_s:.2f} s of CPU): {tick.said}")
    for name, seconds in found.listings.items():
        print(f"{name}: {seconds:.2f} s")
    ticks_of = {**found.second, "launching": max(found.launching, key=lambda tick: tick.wall_s)}
    worst = max(ticks_of, key=lambda name: ticks_of[name].wall_s)
    about = f"10,000 lines, {submitted} submissions, {queued} queued Jobs"
    launched = sum(tick.launched for tick in found.launching)
    p99_ms = sorted(found.submit_s)[int(0.99 * len(found.submit_s))] * 1000
    whole = submitted >= SUBMITTED and queued >= QUEUED
    return [
        bound_figure(
            "capacity_tick_s", f"slowest tick, {worst} ({about}), s", ticks_of[worst].wall_s, "< 60", TICK_S, whole
        ),
        goal_figure("capacity_launched", "… runs launched in one round of ticks", float(launched), None),
        goal_figure("capacity_submit_ms_p99", "… a submission, p99, ms", p99_ms, None),
        goal_figure("capacity_listing_s", "… slowest listing, s", max(found.listings.values()), None),
    ]


def capacity(folder: Path, *, submitted: int = SUBMITTED, queued: int = QUEUED) -> Capacity:
    """Measure with 10,000 lines, so many submissions that wait and as many that arrive, and so many queued Jobs."""
    tenants = tuple(f"t{number:03d}" for number in range(ticks.TENANTS))
    processes = multiprocessing.get_context("spawn")
    with empty_platform() as platform, cluster_with_queue(gpus=0, tenants=tenants) as cluster:
        ticks.populate(platform, opened=submitted)
        settings = settings_file(folder, cluster)
        _queue(platform, settings, queued)
        with ProcessPoolExecutor(1, mp_context=processes) as control_plane:
            return control_plane.submit(_measured, platform.folder, settings, submitted).result()


def _measured(folder: Path, settings: Path, submitted: int) -> Capacity:
    with platform_at(folder) as platform:
        launcher = LauncherResource(kind="kubernetes", settings=str(settings))

        def tick_all() -> dict[str, ticks.Tick]:
            found = {name: ticks.evaluate(platform, sensor) for name, sensor in ticks.SENSORS.items()}
            found |= {name: ticks.evaluate(platform, each, launcher=launcher) for name, each in _OF_CLUSTER.items()}
            return found

        first, second = tick_all(), tick_all()
        submit_s, launching = _submit(platform, submitted), _launch(platform)
        listings: dict[str, Callable[[], object]] = {
            "ft status": lambda: api.list_submissions(store=platform.store),
            "ft status --tenant": lambda: api.list_submissions(tenant="t000", store=platform.store),
            "ft lines": lambda: api.list_lines(store=platform.store),
        }
        listed = {name: _timed(call) for name, call in listings.items()}
    return Capacity(first=first, second=second, submit_s=submit_s, launching=launching, listings=listed)


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


def _launch(platform: Platform) -> list[ticks.Tick]:
    """Ticks that look at all open submissions once."""
    found = [ticks.evaluate(platform, ticks.SENSORS["submissions"])]
    while cursor := found[-1].cursor:
        found.append(ticks.evaluate(platform, ticks.SENSORS["submissions"], cursor=cursor))
    return found


def _timed(call: Callable[[], object]) -> float:
    began = time.monotonic()
    call()
    return time.monotonic() - began
