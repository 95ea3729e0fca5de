"""The daemon is killed in the middle of launching while submissions arrive, and started again: is each launched once?

The instance is that of the partition pages (``benchmarks/partition_world.py``): Dagster on PostgreSQL, its daemon and
the project's code location. Runs are queued there and start no process.
"""

import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import psutil

from benchmarks.partition_world import World, daemon, filled
from benchmarks.table import Figure, bound_figure, goal_figure
from ft_assets.control.submissions.submit import submit
from ft_assets.settings import tags
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from tests.e2e.dagster_server import wait_for
from tests.made import add_recipe, name_version, upload

SUBMITTED, KILLS = 500, 3
_TENANT, _RECIPE = "acme", "r.v1"
_FIRST_STAGES = ("prepare_dataset", "prepare_recipe")
_PATIENCE_S = 900.0


@dataclass(frozen=True, kw_only=True)
class Restarted:
    """First runs of submissions that were never launched, and those that were launched again; seconds from the last
    start of the daemon until all had theirs."""

    lost: int
    twice: int
    kills: int
    caught_up_s: float


def figures(folder: Path, *, submitted: int = SUBMITTED) -> list[Figure]:
    found, whole = restarted(folder, submitted=submitted), submitted >= SUBMITTED
    about = f"{submitted} submissions, daemon killed {found.kills} times"
    caught_up = "… until all were launched after its last start, s"
    return [
        bound_figure("restart_lost", f"runs that were never launched ({about})", found.lost, "0", 0.5, whole),
        bound_figure("restart_twice", "… launched twice", found.twice, "0", 0.5, whole),
        goal_figure("restart_caught_up_s", caught_up, found.caught_up_s, None),
    ]


def restarted(folder: Path, *, submitted: int = SUBMITTED, kills: int = KILLS) -> Restarted:
    """Submit a part, kill the daemon while it launches that, submit the next part while it is away, and so on."""
    (folder / "tenants.yaml").write_text(f"tenants: {{{_TENANT}: {{}}}}\n")
    os.environ.update(FT_TENANTS=str(folder / "tenants.yaml"), FT_SENSOR_SECONDS="1")
    with filled(folder, 0, datasets=2, recipes=2, pairs=4, materialized=2) as world:
        store = open_store(f"file://{folder}/store", create=True)
        add_recipe(store, _RECIPE)
        found, part = list[str](), submitted // (kills + 1)
        for _ in range(kills):
            found += _submit(store, len(found), part)
            with daemon(world) as process:
                # A quarter of the part's runs: the middle of a tick.
                _wait_for_runs(world, (len(found) - part) * len(_FIRST_STAGES) + part // 2)
                _kill(process)
        found += _submit(store, len(found), submitted - len(found))
        with daemon(world):
            began = time.monotonic()
            every = submitted * len(_FIRST_STAGES)
            wait_for(lambda: len(set(_first_runs(world))) >= every, _PATIENCE_S, "all launches", every_s=2.0)
            caught_up_s = time.monotonic() - began
            # A tick that repeats what was launched would do so now.
            time.sleep(10.0)
            made = Counter(_first_runs(world))
    expected = {(submission, stage) for submission in found for stage in _FIRST_STAGES}
    return Restarted(
        lost=len(expected - made.keys()),
        twice=sum(count - 1 for count in made.values()) + len(made.keys() - expected),
        kills=kills,
        caught_up_s=caught_up_s,
    )


def _submit(store: Store, before: int, count: int) -> list[str]:
    """Ask for that many pairs, of datasets that are new; the submissions' ids."""
    raw, tenants, found = upload(Artifacts(store), _TENANT), load_tenants(), list[str]()
    for number in range(before, before + count):
        dataset = f"{_TENANT}.d{number}.v1"
        name_version(store, dataset, raw)
        found.append(submit(store, tenants, dataset=dataset, recipe=_RECIPE, actor="b", origin="cli")[0].id)
    return found


def _first_runs(world: World) -> list[tuple[str, str]]:
    """Submission and stage of each run that a sensor asked for. A retry of Dagster's own is the same launch."""
    runs: Sequence[dg.DagsterRun] = world.instance.get_runs()
    asked = [run for run in runs if tags.SUBMISSION in run.tags and run.parent_run_id is None]
    return [(run.tags[tags.SUBMISSION], run.job_name) for run in asked]


def _wait_for_runs(world: World, count: int) -> None:
    wait_for(lambda: world.instance.get_runs_count() >= count, _PATIENCE_S, "launches", every_s=0.2)


def _kill(daemon_process: psutil.Process) -> None:
    """SIGKILL to the daemon and to the code servers that it started, as with its pod."""
    for each in [*daemon_process.children(recursive=True), daemon_process]:
        each.kill()
