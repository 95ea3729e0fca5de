"""The drill of docs/start/cluster.md: an emptied bucket and a lost database come back with all answers."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

import boto3
import dagster as dg
import jmespath
import pytest
from typer.testing import CliRunner

from ft_assets.cli.main import app
from tests.cli.conftest import pair as pair
from tests.cluster.fixtures import until
from tests.control.lines import promotable
from tests.e2e.project import Project
from tests.faults import HttpFaults, TcpCuts
from tests.k8s.chart import K8S
from tests.k8s.test_instance import bucket as bucket
from tests.k8s.test_instance import curate, instance_of
from tests.k8s.test_instance import project as project
from tests.postgres import own_postgres
from tests.workers.evals.world import World

pytestmark = pytest.mark.e2e
RECIPE, LINE = "lined.v1", "acme.things.lined"
PAGE = (K8S.parent / "docs" / "start" / "cluster.md").read_text()
ANSWERS = (
    *(("dataset", "list", "--json"), ("recipe", "list", "--json"), ("adapter", "list"), ("status", "--json")),
    *(("lines",), ("line", LINE), ("usage", "acme", "--json"), ("verify", "--all")),
)


@contextmanager
def dagster_on(
    home: Path, postgres: tuple[Any, TcpCuts], bucket: tuple[HttpFaults, str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[dg.DagsterInstance]:
    """The instance of the chart's values, which the command line uses too, and the ledger beside it, both new."""
    server, database = postgres
    for name in (home.name, f"{home.name}_metering"):
        server.psql(f"CREATE DATABASE {name}")
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", "unused")
    monkeypatch.setenv("FT_METERING_DB", f"postgresql://postgres@127.0.0.1:{database.port}/{home.name}_metering")
    monkeypatch.setenv("FT_STATE", str(home / "state"))
    with instance_of(home, database, bucket, home.name) as instance, monkeypatch.context() as patch:
        patch.setattr(dg.DagsterInstance, "get", lambda: instance)
        yield instance


def ft(*arguments: str) -> str:
    done = CliRunner().invoke(app, list(arguments))
    assert done.exit_code == 0, (arguments, done.output)
    return done.stdout


def shown(instance: dg.DagsterInstance) -> dict[str, Any]:
    """What Dagster shows: its partitions, and the content of each materialization."""
    found: dict[str, Any] = {name: sorted(instance.get_dynamic_partitions(name)) for name in ("dataset", "recipe")}
    for key in instance.all_asset_keys():
        for partition in sorted(instance.get_materialized_partitions(key)):
            (record,) = instance.fetch_materializations(
                dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
            ).records
            assert record.asset_materialization
            tags = record.asset_materialization.tags or {}
            found[f"{key.to_user_string()} {partition}"] = tags["dagster/data_version"]
    return found


def everything(s3: Any, bucket: str) -> dict[str, str]:
    """The digest of every object of the store."""
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix="root/")
    return {each["Key"]: each["ETag"] for page in pages for each in page.get("Contents", [])}


def empty(s3: Any, bucket: str) -> None:
    keys = [{"Key": key} for key in everything(s3, bucket)]
    for at in range(0, len(keys), 1000):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": keys[at : at + 1000]})


def restore(s3: Any, bucket: str, since: str) -> None:
    """By the query of the page, which the aws command runs over all pages of the same answer."""
    (query,) = re.findall(r'--query "([^"]+)"', PAGE)
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, Prefix="root/")
    markers = [each for page in pages for each in page.get("DeleteMarkers", [])]
    markers = [{**each, "LastModified": each["LastModified"].isoformat()} for each in markers]
    gone = jmespath.search(query.replace("$SINCE", since), {"DeleteMarkers": markers})
    for at in range(0, len(gone), 1000):
        s3.delete_objects(Bucket=bucket, Delete={"Objects": gone[at : at + 1000]})


def test_a_restored_bucket_and_an_empty_database_give_the_same_answers(
    tmp_path: Path,
    project: Project,
    bucket: tuple[HttpFaults, str],
    pair: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "tenants.yaml").write_text(f"served_bases: {json.dumps(list(promotable.SERVED.served_bases))}")
    monkeypatch.setattr("ft_assets.control.lines.eligibility.rejection_reason", lambda *_: "")
    (tmp_path / "line").mkdir()
    # Beside the pair's, which has the name that a line's recipe has.
    monkeypatch.setattr(promotable, "RECIPE", RECIPE)
    line = promotable.Promotable.make(World(store=project.store, folder=tmp_path / "line"))
    adapter = line.adapter(recipe=RECIPE)
    name = urlparse(bucket[1]).netloc
    s3 = boto3.client("s3", endpoint_url=bucket[0].url)
    s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    monkeypatch.setenv("FT_STORE", project.store_url)
    project.store.put("names/gone.json", b"{}")
    project.store.delete("names/gone.json")
    deleted = moment()
    with own_postgres() as postgres:
        with dagster_on(tmp_path / "before", postgres, bucket, monkeypatch) as instance:
            assert curate(project, instance, "others").success
            ft("submit", *pair)
            ft("promote", str(adapter.address), "--to", "staging", "--reason", "try it")
            ft("rebuild")
            before = {arguments: ft(*arguments) for arguments in ANSWERS}
            views, kept = shown(instance), everything(s3, name)
        # The times of S3 have whole seconds.
        until(lambda: moment() > deleted)
        since = moment()
        empty(s3, name)
        assert everything(s3, name) == {}

        restore(s3, name, since)
        assert everything(s3, name) == kept
        with dagster_on(tmp_path / "after", postgres, bucket, monkeypatch) as instance:
            assert shown(instance) == {"dataset": [], "recipe": []}
            ft("rebuild")
            assert shown(instance) == views
            after = {arguments: ft(*arguments) for arguments in ANSWERS}
    assert after == before


def moment() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
