"""From the warehouse to the adapter in one graph: an asset of another code location is materialized, and no person does
anything after that."""

import json
from pathlib import Path

import pytest

from ft_assets.api import watch_dataset
from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_assets.control.registry.versions import latest_version, list_versions
from ft_assets.records.submissions import SubmissionOutcome, SubmissionStatus, all_submissions, find_outcome
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Artifacts
from tests.e2e.dagster_server import dagster_server, wait_for
from tests.e2e.project import Project, make_project

pytestmark = pytest.mark.e2e

# Of a machine that does other things too; nothing here is about speed.
LONG = 600
WAREHOUSE = '''
import json, sqlite3
import dagster as dg

@dg.asset(key=["warehouse", "tickets"])
def tickets():
    """What a dbt model does: it makes a table anew."""
    with sqlite3.connect({database!r}) as database:
        database.execute("DROP TABLE IF EXISTS tickets")
        database.execute("CREATE TABLE tickets (question TEXT, answer TEXT)")
        rows = [json.loads(line)["messages"] for line in open({rows!r})]
        database.executemany("INSERT INTO tickets VALUES (?, ?)", [(q["content"], a["content"]) for q, a in rows])

defs = dg.Definitions(assets=[tickets])
'''
TENANTS = """
tenants:
  acme:
    assets: [warehouse/tickets]
    connections:
      warehouse: {kind: sql, url: FT_SOURCE_WAREHOUSE}
    subscriptions:
      - {dataset: tickets, recipe: tiny.v1}
"""
POLICY = """
source:
  asset: warehouse/tickets
  sql: {connection: warehouse, query: "SELECT question AS prompt, answer AS completion FROM tickets ORDER BY rowid"}
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    project = make_project(tmp_path / "project")
    (project.folder / "tenants.yaml").write_text(TENANTS)
    (project.folder / "dataset.yaml").write_text(POLICY)
    database, rows = str(project.folder / "warehouse.db"), str(project.dataset())
    (project.folder / "warehouse.py").write_text(WAREHOUSE.format(database=database, rows=rows))
    (project.folder / "warehouse.yaml").write_text(
        json.dumps({"load_from": [{"python_file": {"relative_path": "warehouse.py", "location_name": "warehouse"}}]})
    )
    monkeypatch.setenv("FT_SOURCE_WAREHOUSE", f"sqlite:///{database}")
    monkeypatch.setenv("FT_TENANTS", str(project.folder / "tenants.yaml"))
    monkeypatch.setenv("FT_SENSOR_SECONDS", "2")
    return project


def ended(project: Project, pair: str) -> SubmissionOutcome | None:
    found = [each for each in all_submissions(project.store, "acme") if each.pair == pair]
    assert len(found) <= 1, found
    return find_outcome(project.store, found[0]) if found else None


def test_a_materialized_upstream_asset_ends_as_an_adapter(project: Project) -> None:
    store = project.store
    register_recipe(store, project.recipe(), actor="ann")
    watch_dataset("acme.tickets", project.folder / "dataset.yaml", store=store, tenants=load_tenants(), actor="ann")
    with dagster_server(project, project.folder / "warehouse.yaml") as server:
        assert (server.parents("raw_dataset"), server.parents("source")) == ([["source"]], [["warehouse", "tickets"]])
        run = server.materialize(["warehouse", "tickets"], "warehouse")
        key = wait_for(lambda: latest_version(store, "acme", "tickets"), LONG, "a version of the rows")
        outcome = wait_for(lambda: ended(project, f"{key}|tiny.v1"), LONG, "the end of its training")
        assert (str(key), outcome.status) == ("acme.tickets.v1", SubmissionStatus.ACCEPTED), outcome.reason
        raw = identity.raw_dataset(Artifacts(store), str(key))
        # The lineage goes on where Dagster cannot: which run of the warehouse these rows are from.
        assert f"by run {run[:8]}" in raw.facts["source"]
        assert server.partition_counts("raw_dataset")["materialized"] == 1
        # What the warehouse makes next is a version of its own, and leaves this one as true as it was.
        server.materialize(["warehouse", "tickets"], "warehouse")
        wait_for(lambda: len(store.names("acme/pulls/tickets")) == 2, LONG, "a second pull")
        assert server.stale_statuses("raw_dataset", [str(key)]) == ["FRESH"]
        assert [str(each) for each in list_versions(store, "acme", "tickets")] == [str(key)]
