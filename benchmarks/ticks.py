"""``python -m benchmarks gates``, its part about sensors: what a tick costs, and that a base bump keeps its budget.

The sensors are the project's own, evaluated one after the other in this process on a real instance (SQLite) and a
local store. A quiet tick is one of a process that runs for a while, as the daemon's code server does; the first tick
of a new process reads every record once and is shown beside it.
"""

import os
import statistics
import time
from dataclasses import dataclass

import dagster as dg

from benchmarks.table import Figure
from benchmarks.ticks_world import Platform, add_submission, empty_platform, leave_trained, start_run
from ft_assets.control.base_bumps.bump import record_bump
from ft_assets.records.submissions import SubmissionStatus, finish, open_submissions
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource
from ft_sensors.base_bumps import base_bump_sensor
from ft_sensors.notices import notices_sensor
from ft_sensors.retention import retention_sensor
from ft_sensors.retraining import retraining_sensor
from ft_sensors.run_failures import run_failures_sensor
from ft_sensors.submissions import submissions_sensor
from tests.made import add_recipe, name_version, upload

TENANTS, DATASETS, VERSIONS, RECIPES = 100, 10, 10, 100
# Each dataset is subscribed to so many recipes: 10,000 lines.
SUBSCRIBED = 10
OPEN = 200
TICKS = 5
DEPENDENTS, BUDGET = 300, 20
QUIET_S, NEW_VERSION_S = 0.5, 1.0
SENSORS: dict[str, dg.SensorDefinition] = {
    "retraining": retraining_sensor,
    "submissions": submissions_sensor,
    "base_bump": base_bump_sensor,
    "run_failures": run_failures_sensor,
    "notices": notices_sensor,
    "retention": retention_sensor,
}


@dataclass(frozen=True, kw_only=True)
class Tick:
    """Seconds on the wall and of this process's CPU, what the sensor said, and of a tick that asks for runs, how
    many, and where the next one continues."""

    wall_s: float
    cpu_s: float
    said: str
    launched: int = 0
    cursor: str | None = None


def measure() -> list[Figure]:
    """Quiet ticks, one new version, and a base bump."""
    with empty_platform() as platform:
        figures = _quiet_and_new(platform)
    with empty_platform() as platform:
        return figures + _base_bump(platform)


def evaluate(
    platform: Platform, sensor: dg.SensorDefinition, *, cursor: str | None = None, **resources: dg.ConfigurableResource
) -> Tick:
    """One tick."""
    os.environ["FT_TENANTS"] = str(platform.tenants_file)
    context = dg.build_sensor_context(instance=platform.instance, cursor=cursor)
    wall, cpu = time.perf_counter(), time.process_time()
    found = sensor(context, store=StoreResource(url=platform.store.url), **resources)
    spent = time.perf_counter() - wall, time.process_time() - cpu
    runs, after = 0, None
    if isinstance(found, dg.SensorResult):
        runs, after = len(found.run_requests or []), found.cursor
    said = str(found.skip_message) if isinstance(found, dg.SkipReason) else f"{runs} runs"
    return Tick(wall_s=spent[0], cpu_s=spent[1], said=said, launched=runs, cursor=after)


def _quiet_and_new(platform: Platform) -> list[Figure]:
    populate(platform)
    cold = {name: evaluate(platform, sensor) for name, sensor in SENSORS.items()}
    quiet = {name: [evaluate(platform, sensor) for _ in range(TICKS)] for name, sensor in SENSORS.items()}
    walls = {name: statistics.median(tick.wall_s for tick in ticks) for name, ticks in quiet.items()}
    worst = max(walls, key=lambda name: walls[name])
    about = f"{TENANTS * DATASETS * VERSIONS:,} versions, {RECIPES} recipes, {TENANTS * DATASETS * SUBSCRIBED:,} lines"
    figures = [_goal("quiet_tick_s", f"quiet tick of the slowest sensor, {worst} ({about})", walls[worst], QUIET_S)]
    for name, ticks in quiet.items():
        cpu = statistics.median(tick.cpu_s for tick in ticks)
        figures += [
            _plain(f"quiet_{name}_s", f"quiet tick of {name}: {ticks[-1].said[:80]}", walls[name]),
            _plain(f"quiet_{name}_cpu_s", f"the same, seconds of CPU in this one process (it: {name})", cpu),
            _plain(f"first_{name}_s", f"first tick of a new process: {name}", cold[name].wall_s),
        ]
    key = DatasetKey(tenant="t000", name="d0", version=VERSIONS + 1)
    name_version(platform.store, str(key), upload(Artifacts(platform.store), "t000", b"more"))
    asked = evaluate(platform, retraining_sensor)
    assert asked.launched == 2 * SUBSCRIBED, asked.said
    launched = evaluate(platform, submissions_sensor)
    return [
        *figures,
        _goal(
            "new_version_tick_s",
            f"one new version: the slower of asking for its {SUBSCRIBED} lines and launching ({launched.said[:40]})",
            max(asked.wall_s, launched.wall_s),
            NEW_VERSION_S,
        ),
        _plain("new_version_asking_s", "retraining sensor's part of it", asked.wall_s),
        _plain("new_version_launching_s", "submissions sensor's part of it", launched.wall_s),
    ]


def populate(platform: Platform, *, opened: int = OPEN) -> None:
    """Lines of all tenants, of which ``opened`` wait for their first runs."""
    store, artifacts, instance = platform.store, Artifacts(platform.store), platform.instance
    recipes = [f"r{number:03d}.v1" for number in range(RECIPES)]
    for recipe in recipes:
        add_recipe(store, recipe)
    keys: list[str] = []
    lines: list[str] = ["retrainings_per_day: 100000", f"retention: {{keep_versions: {VERSIONS}}}", "tenants:"]
    waiting = 0
    for tenant in (f"t{number:03d}" for number in range(TENANTS)):
        raw = upload(artifacts, tenant)
        lines += [f"  {tenant}:", "    subscriptions:"]
        for name in (f"d{number}" for number in range(DATASETS)):
            for version in range(1, VERSIONS + 1):
                key = DatasetKey(tenant=tenant, name=name, version=version)
                name_version(store, str(key), raw)
                keys.append(str(key))
            first = len(lines)
            for recipe in (recipes[(first + number) % RECIPES] for number in range(SUBSCRIBED)):
                lines.append(f"      - {{dataset: {name}, recipe: {recipe}}}")
                waits = waiting < opened and len(lines) % (TENANTS * DATASETS * SUBSCRIBED // opened) == 0
                submission = add_submission(store, keys[-1], recipe, opened=waits)
                if waits:
                    waiting += 1
                    start_run(instance, "prepare_dataset", submission, submission.dataset)
                    start_run(instance, "prepare_recipe", submission, submission.recipe)
    platform.tenants_file.write_text("\n".join(lines) + "\n")
    instance.add_dynamic_partitions("dataset", keys)
    instance.add_dynamic_partitions("recipe", recipes)


def _base_bump(platform: Platform) -> list[Figure]:
    """A base moved under many lines, every carry fails, and every line is subscribed too."""
    store, artifacts = platform.store, Artifacts(platform.store)
    add_recipe(store, "b.v1")
    add_recipe(store, "b.v2", revision="moved")
    store.create_json(
        "names/successor/b.v1/c.json", {"successor": "b.v2", "from": "a", "to": "c", "actor": "benchmark"}
    )
    lines = [f"retrainings_per_day: {BUDGET}", "tenants:"]
    for tenant in (f"t{number:03d}" for number in range(TENANTS)):
        raw = upload(artifacts, tenant)
        lines += [f"  {tenant}:", "    subscriptions:"]
        for name in (f"d{number}" for number in range(DEPENDENTS // TENANTS)):
            key = DatasetKey(tenant=tenant, name=name, version=1)
            name_version(store, str(key), raw)
            lines.append(f"      - {{dataset: {name}, recipe: b.v1}}")
            adapter = leave_trained(artifacts, key, "b.v1")
            add_submission(store, str(key), "b.v1", adapter=str(adapter.address))
    platform.tenants_file.write_text("\n".join(lines) + "\n")
    bump = record_bump(artifacts, "b.v2", actor="benchmark", problems=[])
    assert len(bump.dependents) == DEPENDENTS
    ticks = []
    for _ in range(2 * DEPENDENTS // 25):
        ticks.append(evaluate(platform, base_bump_sensor))
        evaluate(platform, retraining_sensor)
        for each in list(open_submissions(store)):
            if each.mode == "carry":
                finish(store, each, SubmissionStatus.REJECTED, reason="task_gain: fail")
    trained = [each for each in open_submissions(store) if each.mode == "train"]
    quiet = [evaluate(platform, base_bump_sensor) for _ in range(TICKS)]
    launches = float(len(trained))
    return [
        Figure(
            key="base_bump_launches",
            what=f"trainings that a base bump with {DEPENDENTS} dependent lines submits on a day, all carries failing",
            ours=launches,
            peer=float(BUDGET),
            peer_is="budget",
            goal=f"<= {BUDGET}",
            met=launches <= BUDGET and len({each.pair for each in trained}) == len(trained),
        ),
        _plain("base_bump_busy_s", "a tick of the bump that submits 25 carries", max(tick.wall_s for tick in ticks)),
        _plain(
            "base_bump_quiet_s",
            f"a tick that waits for tomorrow's budget: {quiet[-1].said[-90:]}",
            statistics.median(tick.wall_s for tick in quiet),
        ),
    ]


def _goal(key: str, what: str, value: float, bound: float) -> Figure:
    return Figure(
        key=key, what=what, ours=value, peer=bound, peer_is="bound", goal=f"<= {bound:g} s", met=value <= bound
    )


def _plain(key: str, what: str, value: float) -> Figure:
    return Figure(key=key, what=what, ours=value, peer=None, peer_is="", goal="shown", met=True)
