"""Sources of datasets at a server: watched, pulled and left alone in the name of the key's holder."""

import json
from collections.abc import Callable

import pytest

from ft_assets.records.sources import watches
from tests.cli.conftest import Ft
from tests.e2e.project import Project
from tests.remote.conftest import Far

pytestmark = pytest.mark.dagster


def test_a_source_of_the_tenant_is_watched_and_pulled(far: Far, beside: Ft, project: Project) -> None:
    lake = project.folder / "lake" / "tickets"
    lake.mkdir(parents=True)
    project.dataset().rename(lake / "rows.jsonl")
    connections = {"lake": {"kind": "files", "url": f"file://{project.folder}/lake"}}
    (project.folder / "tenants.yaml").write_text(json.dumps({"tenants": {"acme": {"connections": connections}}}))
    policy = project.folder / "dataset.yaml"
    policy.write_text("source: {files: {connection: lake, path: tickets}}\n")
    watched = far("dataset", "watch", "tickets", "--policy", policy)
    assert (watched.exit_code, watched.stdout) == (0, "acme.tickets\n"), watched.stderr
    assert "watching; it has 1 file" in watched.stderr
    assert watches(project.store)[0].actor.startswith("bea (key ")
    pulled = far("dataset", "pull", "tickets")
    assert (pulled.exit_code, pulled.stdout) == (0, "acme.tickets.v1\n"), pulled.stderr
    shown = far("dataset", "watched", "--json")
    assert shown.stdout == beside("dataset", "watched", "--json").stdout
    assert json.loads(shown.stdout)[0]["last"]["version"] == "acme.tickets.v1"
    assert far("dataset", "unwatch", "tickets").stderr == "no longer watched\n"
    assert far("dataset", "unwatch", "tickets").stderr == "not watched\n"


def test_a_source_that_the_tenant_may_not_read_is_refused(far_as: Callable[..., Far], project: Project) -> None:
    policy = project.folder / "dataset.yaml"
    policy.write_text("source: {files: {connection: lake, path: tickets}}\n")
    refused = far_as("globex")("dataset", "watch", "tickets", "--policy", policy)
    assert (refused.exit_code, "lake" in refused.stderr) == (2, True)
    foreign = far_as()("dataset", "watch", "globex.tickets", "--policy", policy)
    assert "a dataset is named after its tenant" in foreign.stderr
    assert watches(project.store) == []
