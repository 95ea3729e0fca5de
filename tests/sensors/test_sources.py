"""Watched sources: each time that one has other rows, a run adds them as a version, once."""

import json
from collections.abc import Sequence
from concurrent.futures import Future, as_completed
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event
from typing import Any

import dagster as dg
import pytest

from ft_assets.api import pull_dataset, sources, unwatch_dataset, watch_dataset, watched_datasets
from ft_assets.control import identity
from ft_assets.control.erasure.collect import collect, erase_tenant
from ft_assets.control.lines.promotion import Decision
from ft_assets.control.registry.versions import list_versions
from ft_assets.graph.failed_runs import tenant_of
from ft_assets.graph.jobs.sources import pull_dataset_job
from ft_assets.records.sources import Pull, Watch, watches
from ft_assets.settings.tenants import load_tenants
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import StoreResource
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_sensors.sources import sources_sensor
from tests.e2e.project import Project
from tests.sensors.conftest import look, say

pytestmark = pytest.mark.dagster

FILES = "source: {files: {connection: lake, path: tickets}}\n"
IDLE = "checked 1 of 1 sources: 0 changed"


@pytest.fixture(autouse=True)
def lake(project: Project, monkeypatch: pytest.MonkeyPatch) -> Path:
    lake = project.folder / "lake" / "tickets"
    lake.mkdir(parents=True)
    write(lake, range(120))
    connections = {"lake": {"kind": "files", "url": f"file://{project.folder}/lake"}}
    acme = {"connections": connections, "assets": ["warehouse/tickets"]}
    (project.folder / "tenants.yaml").write_text(json.dumps({"tenants": {"acme": acme, "other": {}}}))
    monkeypatch.setenv("DAGSTER_HOME", str(project.folder))
    return lake


def write(folder: Path, numbers: Sequence[int], name: str = "rows.jsonl") -> None:
    rows = ({"prompt": f"what is thing {number}?", "completion": f"thing {number} is {number}"} for number in numbers)
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def watch(project: Project, name: str = "acme.tickets", policy: str = FILES) -> str:
    file = project.folder / "dataset.yaml"
    file.write_text(policy)
    return watch_dataset(name, file, store=project.store, tenants=load_tenants(), actor="ann")[2]


def looked(instance: dg.DagsterInstance, project: Project) -> Any:
    return look(project, instance, sources_sensor)


def tick(instance: dg.DagsterInstance, project: Project) -> str:
    """What a tick says that asks for no run."""
    return say(project, instance, sources_sensor)


def asked(instance: dg.DagsterInstance, project: Project) -> dg.RunRequest:
    """The one run that a tick asks for."""
    (request,) = looked(instance, project).run_requests
    assert isinstance(request, dg.RunRequest)
    return request


def launch(instance: dg.DagsterInstance, project: Project, request: dg.RunRequest) -> dg.ExecuteInProcessResult:
    return pull_dataset_job.execute_in_process(
        run_config=request.run_config,
        tags=request.tags,
        resources={"store": StoreResource(url=project.store_url)},
        instance=instance,
        raise_on_error=False,
    )


def pulled(instance: dg.DagsterInstance, project: Project) -> dg.ExecuteInProcessResult:
    return launch(instance, project, asked(instance, project))


def versions(project: Project) -> list[str]:
    return [str(key) for key in list_versions(project.store, "acme", "tickets")]


def test_other_rows_in_a_source_become_the_next_version_once(project, instance, lake) -> None:
    assert watch(project).startswith("1 file, ")
    assert pulled(instance, project).success
    assert tick(instance, project) == IDLE
    write(lake, range(200, 220), "more.jsonl")
    assert pulled(instance, project).success
    assert tick(instance, project) == IDLE
    assert versions(project) == ["acme.tickets.v1", "acme.tickets.v2"]
    assert set(instance.get_dynamic_partitions("dataset")) == set(versions(project))
    raw = identity.raw_dataset(Artifacts(project.store), "acme.tickets.v2")
    assert (raw.facts["rows"], raw.facts["source"].split(":")[0]) == (140, "files of lake, tickets")
    # The same rows uploaded by hand are the same version: a source is no part of what a version is.
    assert "source" not in raw.manifest.identity["params"]["policy"]


def test_a_materialization_of_an_upstream_asset_is_pulled_and_nothing_else_is(project, instance, lake) -> None:
    watch(project, policy="source: {asset: warehouse/tickets, files: {connection: lake, path: tickets}}")
    assert tick(instance, project) == IDLE
    for number in range(2):
        instance.report_runless_asset_event(dg.AssetMaterialization(["warehouse", "tickets"]))
        assert pulled(instance, project).success
        write(lake, range(number, 150))
        assert tick(instance, project) == IDLE
    assert versions(project) == ["acme.tickets.v1", "acme.tickets.v2"]


def test_rows_that_cannot_be_used_or_looked_at_fail_a_run_of_their_tenant_once_and_are_not_read_again(
    project, instance, lake
) -> None:
    (lake / "rows.jsonl").write_text('{"prompt": "no answer"}\n' * 120)
    watch(project)
    failed = pulled(instance, project)
    assert not failed.success
    assert tenant_of(failed.dagster_run) == "acme"
    assert tick(instance, project) == IDLE
    (row,) = watched_datasets(store=project.store)
    assert (row.last.version, "rows.jsonl, row 1" in row.last.refused) == ("", True), row.last.refused
    # What cannot be looked at is told as a failed run too, and nobody is told each minute.
    (lake / "rows.jsonl").unlink()
    failed = pulled(instance, project)
    assert not failed.success
    assert tenant_of(failed.dagster_run) == "acme"
    assert "there is no" in tick(instance, project)
    write(lake, range(120))
    assert pulled(instance, project).success
    assert tick(instance, project) == IDLE


def test_a_pull_that_failed_for_a_passing_reason_is_tried_again_later(project, instance, lake, monkeypatch) -> None:
    watch(project)
    request = asked(instance, project)
    tenants = (project.folder / "tenants.yaml").read_text()
    (project.folder / "tenants.yaml").write_text("{}")
    assert not launch(instance, project, request).success
    (project.folder / "tenants.yaml").write_text(tenants)
    assert tick(instance, project) == "checked 1 of 1 sources: 1 changed"
    monkeypatch.setattr("ft_sensors.sources._AGAIN_S", 0.0)
    again = asked(instance, project)
    assert launch(instance, project, again).success


def test_what_one_source_suffers_from_is_said_and_holds_up_no_other(project, instance, lake) -> None:
    watch(project)
    (lake.parent / "boxes").mkdir()
    write(lake.parent / "boxes", range(120))
    watch(project, "acme.boxes", "source: {files: {connection: lake, path: boxes}}")
    (lake.parent / "boxes" / "rows.jsonl").unlink()
    requests = {each.tags["ft/source"]: each for each in looked(instance, project).run_requests}
    assert launch(instance, project, requests["acme.tickets"]).success
    assert not launch(instance, project, requests["acme.boxes"]).success
    assert versions(project) == ["acme.tickets.v1"]
    assert "acme.boxes: there is no" in tick(instance, project)


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        (FILES, "there is no connection 'lake'"),
        ("source: {asset: warehouse/tickets, hub: org/rows@main#train}", "may not watch the asset"),
        ("{}", "has no source"),
    ],
)
def test_a_tenant_reaches_no_connection_and_no_asset_of_another(project: Project, policy: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        watch(project, "other.tickets", policy)
    assert watches(project.store) == []


def test_a_source_that_is_watched_no_longer_gives_no_version_and_another_policy_reads_the_same_rows_anew(
    project, instance
) -> None:
    watch(project)
    assert unwatch_dataset("acme.tickets", store=project.store)
    assert not unwatch_dataset("acme.tickets", store=project.store)
    assert tick(instance, project) == "checked 0 of 0 sources: 0 changed"
    watch(project)
    assert pulled(instance, project).success
    watch(project, policy=f"{FILES}split: {{holdout: 0.2}}\n")
    assert pulled(instance, project).success
    assert versions(project) == ["acme.tickets.v1", "acme.tickets.v2"]


def test_only_one_run_reads_a_source_at_a_time_and_a_pull_that_somebody_canceled_is_tried_again_later(
    project, instance, monkeypatch
) -> None:
    watch(project)
    first = asked(instance, project)
    status = dg.DagsterRunStatus.STARTED
    run = instance.create_run_for_job(pull_dataset_job, run_config=first.run_config, tags=first.tags, status=status)
    assert tick(instance, project) == "checked 1 of 1 sources: 1 changed"
    instance.report_run_canceled(run)
    monkeypatch.setattr("ft_sensors.sources._AGAIN_S", 0.0)
    again = asked(instance, project)
    assert again.run_key is None or again.run_key != first.run_key


def test_a_source_that_goes_back_to_what_it_had_is_pulled_again(project, instance, lake) -> None:
    watch(project)
    first = asked(instance, project)
    assert launch(instance, project, first).success
    before = (lake / "rows.jsonl").stat()
    (lake / "rows.jsonl").rename(lake.parent / "kept")
    write(lake, range(300, 420))
    assert pulled(instance, project).success
    (lake.parent / "kept").rename(lake / "rows.jsonl")
    assert (lake / "rows.jsonl").stat().st_mtime == before.st_mtime
    again = asked(instance, project)
    # Dagster launches a run key once and for all.
    assert again.run_config == first.run_config
    assert again.run_key is None or again.run_key != first.run_key
    assert launch(instance, project, again).success
    assert tick(instance, project) == IDLE


def test_a_source_that_hangs_or_breaks_its_driver_holds_up_no_other(project, instance, lake, monkeypatch) -> None:
    """One tenant's `SELECT pg_sleep(600)`, and a year that the driver's dates do not have."""
    for name in ("hangs", "breaks"):
        watch(project, f"acme.{name}")
    watch(project)
    goes_on, hung, last = Event(), [], sources.last_pull

    def looking(store: Store, watched: Watch) -> Pull | None:
        if watched.name == "hangs":
            hung.append(watched)
            goes_on.wait(600)
        if watched.name == "breaks":
            raise ValueError("year 20000 is out of range")
        return last(store, watched)

    def patience(futures: Sequence[Future[object]], timeout: float) -> None:
        """Wait for all but the one that hangs: as long as they take on this machine."""
        for _ in zip(range(len(futures) - (not goes_on.is_set())), as_completed(futures), strict=False):
            pass

    monkeypatch.setattr("ft_assets.control.registry.looking.wait", patience)
    monkeypatch.setattr(sources, "last_pull", looking)
    for _ in range(2):
        found = looked(instance, project).run_requests
        assert [each.tags["ft/source"] for each in found] == ["acme.breaks", "acme.tickets"]
    assert len(hung) == 1
    goes_on.set()
    assert "acme.hangs" in [each.tags["ft/source"] for each in looked(instance, project).run_requests]


def test_nothing_is_pulled_for_a_deleted_tenant_and_its_pulls_stay_on_record(project, instance, lake) -> None:
    watch(project)
    assert pulled(instance, project).success
    artifacts = Artifacts(project.store)
    erase_tenant(artifacts, "acme", Decision(actor="ann", reason="they asked"), grace_days=0)
    collect(artifacts, datetime.now(UTC) + timedelta(seconds=2))
    write(lake, range(300, 420))
    assert tick(instance, project) == "checked 0 of 0 sources: 0 changed"
    with pytest.raises(UserError, match="is not watched"):
        pull_dataset("acme.tickets", store=project.store)
    assert project.store.exists("acme/pulls/tickets/000001.json")
