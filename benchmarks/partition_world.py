"""A Dagster instance on PostgreSQL with the partitions of a large platform, its webserver and its daemon."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import psutil
import sqlalchemy
import yaml
from sqlalchemy import func

from ft_assets.graph.listed_keys import add_keys
from ft_assets.graph.partitions import pair_key
from ft_resources.run_launcher import WatchedRunLauncher
from ft_resources.store_marker import open_store
from tests.e2e.dagster_server import DagsterServer, free_port, wait_for
from tests.postgres import postgres_database

_ROOT = Path(__file__).resolve().parents[1]
PAIR_ASSETS = ("token_pack", "checkpoint", "eval_report", "adapter")
# Assets of pairs whose pages are opened; their pairs have events.
SHOWN_ASSETS = ("adapter", "eval_report")


class NoLauncher(WatchedRunLauncher):
    """Takes runs off the queue and starts no process: what a backfill's runs would do is not what is timed."""

    def launch_run(self, context: object) -> None:
        pass


@dataclass(frozen=True, kw_only=True, slots=True)
class World:
    """``materialized`` of ``pairs`` have events."""

    folder: Path
    instance: dg.DagsterInstance
    pairs: Sequence[str]
    materialized: Sequence[str]
    url: str


@contextmanager
def filled(folder: Path, seed: int, *, datasets: int, recipes: int, pairs: int, materialized: int) -> Iterator[World]:
    """An instance with so many keys on its lists, and so many pairs with materializations."""
    draw = random.Random(seed)
    names = [f"tenant-{n // 100:03d}.data-{draw.randrange(1000):03d}.v{n % 100 + 1}" for n in range(datasets)]
    versions = [f"recipe-{n:03d}.v1" for n in range(recipes)]
    listed = sorted({pair_key(name, each) for name in names for each in draw.sample(versions, pairs // datasets)})
    for part in ("state", "instance"):
        (folder / part).mkdir()
    with postgres_database() as url:
        config = yaml.safe_load((_ROOT / "dagster.yaml").read_text())
        config["storage"] = {"postgres": {"postgres_url": url.replace("postgresql://", "postgresql+psycopg2://", 1)}}
        config["run_launcher"] = {"module": "benchmarks.partition_world", "class": "NoLauncher"}
        (folder / "instance" / "dagster.yaml").write_text(yaml.safe_dump(config))
        os.environ["FT_STATE"] = str(folder / "state")
        with dg.DagsterInstance.from_config(str(folder / "instance")) as instance:
            # No asset has the list `pair`: the copies below are made from it.
            for dimension, keys in (("dataset", names), ("recipe", versions), ("pair", listed)):
                add_keys(instance, dimension, keys)
            world = World(
                folder=folder,
                instance=instance,
                pairs=listed,
                materialized=draw.sample(listed, materialized),
                url=config["storage"]["postgres"]["postgres_url"],
            )
            instance.report_runless_asset_event(dg.AssetMaterialization("base_model", partition=versions[0]))
            for asset in SHOWN_ASSETS:
                _materialize(world, asset)
            yield world


@contextmanager
def webserver(world: World) -> Iterator[tuple[DagsterServer, psutil.Process]]:
    """Dagster's webserver over the project's code location."""
    port = free_port()
    options = ["-w", str(_ROOT / "workspace.yaml"), "-p", str(port), "-h", "127.0.0.1"]
    with _started(world, "dagster_webserver", *options) as process:
        server = DagsterServer(port, process)
        wait_for(server.answers, 180, "the Dagster webserver")
        yield server, psutil.Process(process.pid)


@contextmanager
def daemon(world: World) -> Iterator[psutil.Process]:
    """Dagster's daemon over the project's code location, with its sensors."""
    with _started(world, "dagster._daemon", "run", "-w", str(_ROOT / "workspace.yaml")) as process:
        yield psutil.Process(process.pid)


@contextmanager
def _started(world: World, module: str, *options: str) -> Iterator[subprocess.Popen[bytes]]:
    store = f"file://{world.folder}/store"
    open_store(store, create=True)
    environment = {
        **os.environ,
        "DAGSTER_HOME": str(world.folder / "instance"),
        "FT_STORE": store,
        "FT_TRACKING": "off",
        "PYTHONPATH": str(_ROOT),
    }
    with (world.folder / f"{module}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *options], env=environment, cwd=_ROOT, stdout=log, stderr=log
        )
        try:
            yield process
        finally:
            family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
            for each in family:
                each.terminate()
            for each in psutil.wait_procs(family, timeout=20)[1]:
                each.kill()
            process.wait()


def _materialize(world: World, asset: str) -> None:
    """Events of ``asset`` for the pairs. Of all but the first and the last the database makes copies of the first's, as
    an event through Dagster takes ten milliseconds."""
    first, *others, last = world.materialized

    def report(pair: str) -> None:
        partition = pair_key(*pair.split("|"))
        world.instance.report_runless_asset_event(dg.AssetMaterialization(asset, partition=partition))

    report(first)
    with _tables(world, "event_logs", "dynamic_partitions") as (connection, (events, keys)):
        event = func.replace(events.c.event, first, keys.c.partition)
        where = (events.c.asset_key == f'["{asset}"]') & keys.c.partition.in_(others)
        _copy(connection, events, keys, where, {"event": event, "partition": keys.c.partition})
    report(last)


def queue_copies(world: World, run: dg.DagsterRun) -> None:
    """A queued run like ``run`` for each pair, as the daemon leaves them after hours. The database writes them."""
    with _tables(world, "runs", "run_tags", "dynamic_partitions") as (connection, (runs, run_tags, keys)):
        pair = keys.c.partition
        made = func.md5(pair)
        body = func.replace(func.replace(runs.c.run_body, run.run_id, made), run.tags["dagster/partition"], pair)
        values = {"run_id": made, "partition": pair, "run_body": body, "status": sqlalchemy.literal("QUEUED")}
        _copy(connection, runs, keys, runs.c.run_id == run.run_id, values)
        of_partition = (run_tags.c.run_id == run.run_id) & (run_tags.c.key == "dagster/partition")
        _copy(connection, run_tags, keys, of_partition, {"run_id": made, "value": pair})


@contextmanager
def _tables(world: World, *names: str) -> Iterator[tuple[sqlalchemy.Connection, list[sqlalchemy.Table]]]:
    engine, known = sqlalchemy.create_engine(world.url), sqlalchemy.MetaData()
    known.reflect(engine, only=names)
    with engine.begin() as connection:
        yield connection, [known.tables[name] for name in names]
    engine.dispose()


def _copy(
    connection: sqlalchemy.Connection,
    table: sqlalchemy.Table,
    keys: sqlalchemy.Table,
    where: sqlalchemy.ColumnElement[bool],
    values: dict[str, Any],
) -> None:
    """Copy the row ``where`` for each pair, with ``values`` in place of its own; ids are new."""
    columns = {column.name: values.get(column.name, column) for column in table.c if column.name != "id"}
    every_pair = table.join(keys, keys.c.partitions_def_name == "pair")
    copies = sqlalchemy.select(*columns.values()).select_from(every_pair).where(where)
    connection.execute(table.insert().from_select(list(columns), copies))


def own_bytes(process: psutil.Process) -> int:
    """Resident memory of a process and its children."""
    return sum(each.memory_info().rss for each in [process, *process.children(recursive=True)])
