"""Lines and deletion at the command line, and the jobs of the UI."""

import json

import dagster as dg
import pytest

from ft_assets.control.lines.lines import read_line
from ft_assets.graph.jobs.adapters import collect_deleted, promote_job, rollback_job
from ft_resources.artifacts import Artifact
from ft_resources.dagster_resources import StoreResource
from ft_resources.store_marker import open_store
from tests.cli.conftest import Ft
from tests.control.lines.promotable import LINE, SERVED, Promotable
from tests.e2e.project import Project
from tests.workers.evals.world import World

pytestmark = pytest.mark.dagster


@pytest.fixture
def adapters(project: Project, monkeypatch: pytest.MonkeyPatch) -> list[Artifact]:
    """Two accepted adapters of a line, whose base is served."""
    monkeypatch.setattr("ft_assets.control.lines.eligibility.rejection_reason", lambda *_: "")
    served = json.dumps(list(SERVED.served_bases))
    (project.folder / "tenants.yaml").write_text(f"served_bases: {served}\n")
    folder = project.folder / "made"
    folder.mkdir()
    line = Promotable.make(World(store=open_store(project.store_url), folder=folder))
    return [line.adapter(1), line.adapter(2)]


def test_a_line_goes_to_production_and_back(ft: Ft, adapters: list[Artifact]) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    result = ft("promote", first[:30], "--to", "staging", "--reason", "try it")
    assert result.stdout == f"{LINE} staging {first}\n"
    assert ft("promote", LINE, "--to", "production", "--reason", "good").exit_code == 0
    assert "already in this stage" in ft("promote", LINE, "--to", "production", "--reason", "good").stderr
    assert ft("promote", second, "--to", "production", "--reason", "better").exit_code == 0
    back = ft("rollback", LINE, "--reason", "worse after all")
    assert back.stdout == f"{LINE} production {first}\n"
    shown = ft("line", LINE)
    assert "rolled back to production" in shown.stdout
    assert "worse after all" in shown.stdout
    assert json.loads(ft("line", LINE, "--json").stdout)["production"] == first
    assert LINE in ft("lines").stdout
    assert ft("lines", "--tenant", "globex").stdout == ""
    assert ft("verify", LINE).exit_code == 0
    assert ft("promote", LINE, "--to", "heaven", "--reason", "x").exit_code == 2


def test_a_move_to_production_waits_for_a_second_person_where_two_decide(
    ft: Ft, adapters: list[Artifact], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (project.folder / "tenants.yaml").open("a") as file:
        file.write("production_second_person: true\n")
    first = str(adapters[0].address)
    waits = ft("promote", first, "--to", "production", "--reason", "good")
    assert waits.exit_code == 0
    assert waits.stdout.startswith(f"{LINE} proposal ")
    assert "waiting: production of acme.things.tiny requires approval" in waits.stderr
    assert "pending approval" in ft("line", LINE).stderr
    assert "another person must approve it" in ft("approve", LINE, "--note", "good").stderr
    monkeypatch.setattr("ft_assets.api.defaults.user", lambda: "bea")
    assert ft("approve", LINE, "--note", "good").stdout == f"{LINE} production {first}\n"
    assert "bea (proposed by " in ft("line", LINE).stdout
    ft("promote", str(adapters[1].address), "--to", "production", "--reason", "better")
    assert ft("decline", LINE, "--reason", "no").stdout.endswith(" withdrawn\n")


def test_what_is_deleted_waits_is_kept_for_production_and_comes_back(ft: Ft, adapters: list[Artifact]) -> None:
    first = str(adapters[0].address)
    ft("promote", first, "--to", "production", "--reason", "good")
    result = ft("delete", "acme.things.v1", first, "--reason", "contract ended")
    assert result.exit_code == 0
    assert "dataset acme.things.v1: deleted by" in result.stdout
    assert f"in production of {LINE}" in result.stderr
    assert "(contract ended)" in ft("promote", first, "--to", "dev", "--reason", "x").stderr
    assert ft("collect").stdout == ""
    assert ft("restore", "acme.things.v1", "--reason", "a mistake").stdout == "dataset acme.things.v1: restored\n"
    assert "this is a tenant" in ft("delete", "acme", "--reason", "x").stderr


def test_a_tenant_is_erased_at_once_only_where_somebody_says_so(
    ft: Ft, adapters: list[Artifact], project: Project
) -> None:
    first = str(adapters[0].address)
    ft("promote", first, "--to", "production", "--reason", "good")
    assert ft("erase", "acme", "--reason", "they asked", "--grace-days", "0").exit_code == 2
    assert project.store.exists(f"{first}/manifest.json")
    result = ft("erase", "acme", "--reason", "they asked", "--without-grace")
    assert result.exit_code == 0, result.output
    assert f"erased {first}" in result.stdout
    assert not project.store.exists(f"{first}/manifest.json")
    lineage = ft("lineage", first)
    assert "erased, deleted by" in lineage.stdout
    verified = ft("verify", LINE)
    assert verified.exit_code == 0
    assert f"{first}: erased, deleted by" in verified.stdout
    assert ft("rebuild").exit_code == 0


def test_the_jobs_of_the_ui_do_the_same_and_name_who_runs_the_deployment(
    adapters: list[Artifact], project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    resources = {"store": StoreResource(url=project.store_url)}
    monkeypatch.setenv("FT_ACTOR", "eve")

    def run(job: dg.JobDefinition, op: str, config: dict[str, object]) -> dg.ExecuteInProcessResult:
        return job.execute_in_process(
            run_config={"ops": {op: {"config": config}}} if config else {},
            resources=resources,
            raise_on_error=False,
        )

    for adapter in adapters:
        config: dict[str, object] = {"target": str(adapter.address), "stage": "staging", "reason": "try it"}
        assert run(promote_job, "record_promotion", config).success
    assert run(rollback_job, "record_rollback", {"line": LINE, "stage": "staging", "reason": "no"}).success
    assert not run(rollback_job, "record_rollback", {"line": LINE, "reason": "no"}).success
    assert run(collect_deleted, "erase_deleted", {}).success
    records = read_line(project.store, LINE).records
    assert [(record.actor, record.kind) for record in records] == [
        ("eve (in Dagster)", "promotion"),
        ("eve (in Dagster)", "promotion"),
        ("eve (in Dagster)", "rollback"),
    ]
