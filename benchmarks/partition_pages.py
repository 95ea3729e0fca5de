"""Dagster's partition pages over 10,000 dataset versions and 100 recipes, a million pairs, on PostgreSQL.

A real webserver serves the project's code location, and Chromium opens its pages as a person does: seconds count from
the click until the list shows its first key, with every query that the page sends and everything that it draws. Then a
backfill of 100,000 pairs is launched as the dialog launches it; runs are queued and start no process.
``FT_BENCH_SEED`` draws other keys and pairs.
"""

import json
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import psutil

from benchmarks.partition_world import (
    PAIR_ASSETS,
    SHOWN_ASSETS,
    World,
    daemon,
    filled,
    own_bytes,
    queue_copies,
    webserver,
)
from benchmarks.table import Figure
from ft_assets.graph.listed_keys import active_partitions
from ft_assets.graph.runs import under_way
from tests.e2e.dagster_server import DagsterServer, wait_for
from tests.workers.datasets.reporting.browser import chromium, has_chromium

DATASETS, RECIPES, PAIRS, MATERIALIZED = 10_000, 100, 100_000, 3_000
_PAGE_S, _TICK_S = 5.0, 5.0
_LONGEST_S = 240.0
_OBSERVED_S = 45.0
# As in dagster.yaml.
MOST_STARTED = 25
_STARTED = [dg.DagsterRunStatus.STARTING, dg.DagsterRunStatus.STARTED]


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """How long a page took to show what is looked for, and its queries: seconds and megabytes by name."""

    seconds: float
    queries: dict[str, tuple[float, float]]

    @property
    def slowest(self) -> str:
        """For people."""
        name, (took, size) = max(self.queries.items(), key=lambda item: item[1], default=("no query", (0.0, 0.0)))
        return f"{self.seconds:.2f} s; its slowest query: {name} {took:.2f} s, {size:.1f} MB"


@dataclass(frozen=True, kw_only=True, slots=True)
class Backfilled:
    """A backfill of all pairs: how long its launch and the daemon took, and what it left in the queue."""

    launch_s: float
    taken_s: float
    runs_s: float
    most_started: int
    peak_gb: float
    tick_s: float


def figures() -> list[Figure]:
    """Fill, open, launch: five to ten minutes."""
    if not has_chromium():
        return [_figure("partition_page_s_100k", "the slowest partition page (needs chromium), s", None, _PAGE_S)]
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory(prefix="ft-partitions-", ignore_cleanup_errors=True) as name:
        sizes = {"datasets": DATASETS, "recipes": RECIPES, "pairs": PAIRS, "materialized": MATERIALIZED}
        with filled(Path(name), int(os.environ.get("FT_BENCH_SEED", "0")), **sizes) as world:
            with webserver(world) as (server, process):
                pages = _pages(server, world)
                done, pages["backfill"] = _backfill(world, server, process)
    for what, page in pages.items():
        print(f"{what}: {page.slowest}")
    slowest = max(pages[asset].seconds for asset in SHOWN_ASSETS)
    return [
        Figure(
            key="partition_page_s_100k",
            what=f"the slowest partition page of {', '.join(SHOWN_ASSETS)}, {DATASETS * RECIPES:,} pairs, s",
            ours=slowest,
            peer=None,
            peer_is="",
            goal=f"<= {_PAGE_S:g}",
            met=slowest <= _PAGE_S,
        ),
        _figure("partition_search_s", "… a name typed into its list, s", pages["search"].seconds),
        _figure("partition_dialog_s", "… the dialog that launches, s", pages["dialog"].seconds),
        _figure("backfill_page_s", f"the page of a backfill of {PAIRS:,} pairs, s", pages["backfill"].seconds),
        _figure("backfill_launch_s", "… launching it, s", done.launch_s),
        _figure("backfill_taken_s", "… until the daemon has queued its first runs, s", done.taken_s),
        _figure("backfill_runs_s", "… runs that it queues a second after that", done.runs_s),
        _figure("backfill_peak_gb", "… webserver, daemon and code servers at most, GB", done.peak_gb),
        _figure("backfill_started", "… its runs started at once at most", done.most_started, MOST_STARTED),
        _figure("queue_tick_s", f"what sensors read of {PAIRS:,} queued runs each tick, s", done.tick_s, _TICK_S),
    ]


def _figure(key: str, what: str, ours: float | None, most: float | None = None) -> Figure:
    goal = "reported" if most is None else f"<= {most:g}"
    met = None if ours is None else most is None or ours <= most
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=goal, met=met)


class _Browser:
    """Pages in Chromium, timed as they are seen."""

    def __init__(self, driver: Any, url: str) -> None:
        self._driver, self._url = driver, url

    def open(self, path: str, shows: str) -> Opened:
        """From the address until the text ``shows`` is on the page."""
        self._driver.get_log("performance")
        return self._until(
            lambda: self._driver.get(f"{self._url}{path}"), f"body.innerText.includes({json.dumps(shows)})"
        )

    def type(self, text: str, shows: str) -> Opened:
        """From the first letter typed into the list's filter until only ``shows`` is left of it."""
        field = self._driver.find_element("css selector", "input[placeholder^='Filter by dataset']")
        first = f"body.innerText.includes({json.dumps(shows)})"
        return self._until(lambda: field.send_keys(text), first)

    def click(self, button: str) -> Opened:
        """From the click on a button until its dialog is there."""
        found = next(each for each in self._driver.find_elements("css selector", "button") if button in each.text)
        return self._until(found.click, "querySelector('[class*=dialog] button')")

    def _until(self, act: Callable[[], Any], condition: str) -> Opened:
        began = time.monotonic()
        act()
        wait_for(
            lambda: self._driver.execute_script(f"return !!document.{condition}"), _LONGEST_S, condition, every_s=0.05
        )
        seconds = time.monotonic() - began
        return Opened(seconds=seconds, queries=self._queries())

    def _queries(self) -> dict[str, tuple[float, float]]:
        """Seconds and megabytes of the GraphQL queries that were answered, by name; of several the longest."""
        asked: dict[str, tuple[str, float]] = {}
        found: dict[str, tuple[float, float]] = {}
        for entry in self._driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            event, told = message["method"], message["params"]
            if event == "Network.requestWillBeSent" and "/graphql" in told["request"]["url"]:
                name = json.loads(told["request"].get("postData") or "{}").get("operationName", "")
                asked[told["requestId"]] = (str(name), told["timestamp"])
            elif event == "Network.loadingFinished" and told["requestId"] in asked:
                name, began = asked[told["requestId"]]
                took = (told["timestamp"] - began, told["encodedDataLength"] / 1e6)
                found[name] = max(found.get(name, took), took)
        return found


def _pages(server: DagsterServer, world: World) -> dict[str, Opened]:
    """Each page the first time that it is opened, and the middle one of three times after that."""
    found = {}
    last = world.pairs[-1].split("|")[0]
    with chromium() as driver:
        browser = _Browser(driver, server.url)
        browser.open("/overview", "Overview")
        for asset in SHOWN_ASSETS:
            found[f"{asset}, first"] = browser.open(f"/assets/{asset}?view=partitions", "tenant-000.")
            again = [browser.open(f"/assets/{asset}?view=partitions", "tenant-000.") for _ in range(3)]
            found[asset] = sorted(again, key=lambda each: each.seconds)[1]
        browser.open(f"/assets/{SHOWN_ASSETS[0]}?view=partitions", "tenant-000.")
        found["search"] = browser.type(last, last)
        found["dialog"] = browser.click("Materialize")
    return found


def _backfill(world: World, server: DagsterServer, web: psutil.Process) -> tuple[Backfilled, Opened]:
    instance = world.instance
    began = time.monotonic()
    backfill = server.backfill(list(PAIR_ASSETS), list(world.pairs))
    launched = time.monotonic() - began
    of_it, peak, most = dg.RunsFilter(tags={"dagster/backfill": backfill}), 0, 0
    started = dg.RunsFilter(tags={"dagster/backfill": backfill}, statuses=_STARTED)
    with daemon(world) as process:
        begun = time.monotonic()
        counts: list[tuple[float, int]] = []
        while not counts or (counts[-1][0] < counts[0][0] + _OBSERVED_S):
            time.sleep(1)
            peak = max(peak, own_bytes(web) + own_bytes(process))
            most = max(most, instance.get_runs_count(started))
            if count := instance.get_runs_count(of_it):
                counts.append((time.monotonic(), count))
            elif time.monotonic() - begun > _LONGEST_S:
                raise AssertionError("the daemon has not taken the backfill")
    with chromium() as driver:
        page = _Browser(driver, server.url).open(f"/runs/b/{backfill}", "token_pack")
    (first, few), (last, many) = counts[0], counts[-1]
    queue_copies(world, next(iter(instance.get_runs(of_it, limit=1))))
    began = time.monotonic()
    busy = active_partitions(instance)
    under_way(instance)
    tick = time.monotonic() - began
    assert len(busy) >= len(world.pairs)
    return Backfilled(
        launch_s=launched,
        taken_s=first - begun,
        runs_s=(many - few) / (last - first),
        most_started=most,
        peak_gb=peak / 1e9,
        tick_s=tick,
    ), page
