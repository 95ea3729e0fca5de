"""Lines, deletion and rollouts at the command line, and the jobs of the UI."""

import json

import dagster as dg
import pytest
import yaml

from ft_assets.control.lines.lines import read_line
from ft_assets.control.rollouts.rollouts import read_rollouts
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
            run_config={"ops": {op: {"config": config}}} if config else {}, resources=resources, raise_on_error=False
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


def test_a_rollout_is_started_looked_at_and_ended(ft: Ft, adapters: list[Artifact], project: Project) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    assert ft("rollout", "status", LINE).stderr == (f"{LINE} has had no rollout yet.\n")
    refused = ft("rollout", "start", LINE, "--candidate", second, "--reason", "try it")
    assert "there is no adapter in production" in refused.stderr
    ft("promote", first, "--to", "production", "--reason", "good")
    unknown = ft("rollout", "start", LINE, "--candidate", second, "--reason", "try it")
    assert unknown.exit_code == 2
    assert "--latency-limit" in unknown.stderr

    wanted = ("--steps", "2,100", "--minimum", "300", "--outcome", "thumbs", "--outcome", "latency")
    limits = ("--margin", "thumbs=0.03", "--latency-limit", "1.5", "--reason", "try it")
    started = ft("rollout", "start", LINE, "--candidate", second[:30], *wanted, *limits)
    assert started.exit_code == 0, started.stderr
    assert started.stdout.startswith(f"{LINE} rollout ")
    assert started.stdout.endswith(f" {second} 2%\n")
    plan = read_rollouts(project.store, LINE).open.started.plan
    assert (plan.steps, plan.minimum, plan.latency_limit_s) == ([2, 100], 300, 1.5)
    assert plan.margins == {"thumbs": 0.03, "latency": 0.05}

    status = ft("rollout", "status", LINE)
    assert "started, 2 %" in status.stdout
    assert "outcomes of the candidate at 2 %: latency: 0 of 300, thumbs: 0 of 300" in status.stderr
    shown = json.loads(ft("rollout", "status", LINE, "--json").stdout)
    assert shown["weights"] == {second: 2, first: 98}
    assert [each["kind"] for each in shown["evidence"]] == ["latency", "thumbs"]

    assert ft("rollout", "cancel", LINE, "--reason", "not today").stdout.endswith(" cancelled\n")
    assert "cancelled, 0 %" in ft("rollout", "status", LINE).stdout
    assert "no rollout is open" in ft("rollout", "cancel", LINE, "--reason", "not today").stderr


def test_a_rollout_begins_with_copies_where_that_is_asked_for(
    ft: Ft, adapters: list[Artifact], project: Project
) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    ft("promote", first, "--to", "production", "--reason", "good")
    options = ("--candidate", second, "--shadow", "20", "--reason", "try it")
    useless = ft("rollout", "start", LINE, *options, "--outcome", "thumbs")
    assert useless.exit_code == 2
    assert "nobody sees the answers" in useless.stderr
    started = ft("rollout", "start", LINE, *options, "--latency-limit", "1.5")
    assert started.stdout.endswith(f" {second} 20% copied\n")
    status = ft("rollout", "status", LINE)
    assert "started, 20 % copied" in status.stdout
    assert "outcomes of the candidate of 20 % of requests, copied: latency: 0 of 200" in status.stderr
    assert "20 % of the requests are copied to the candidate" in status.stderr
    shown = json.loads(ft("rollout", "status", LINE, "--json").stdout)
    assert (shown["shadow"], shown["weights"]) == (20, {second: 0, first: 100})
    again = ft("rollout", "start", LINE, *options, "--latency-limit", "1.5")
    assert "a rollout is open" in again.stderr
    assert "has 20 % copied" in again.stderr


def test_the_judge_of_copies_that_the_line_names_is_shown(ft: Ft, adapters: list[Artifact], project: Project) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    judge = {"model": {"endpoint": "https://judge.example.com/v1", "model": "m", "allow_same_family": True}}
    lines = {LINE.partition(".")[2]: {"traffic": {"keep": True}, "rollouts": {"judge": judge}}}
    with (project.folder / "tenants.yaml").open("a") as file:
        file.write(
            yaml.safe_dump({"judge_hosts": [{"host": "judge.example.com"}], "tenants": {"acme": {"lines": lines}}})
        )
    ft("promote", first, "--to", "production", "--reason", "good")
    options = ("--candidate", second, "--shadow", "20", "--outcome", "thumbs", "--reason", "try it")
    started = ft("rollout", "start", LINE, *options)
    assert started.exit_code == 0, started.stderr
    status = ft("rollout", "status", LINE)
    assert "m at judge.example.com judged copies: 0 won by the candidate, 0 tied, 0 lost\n" in status.stderr
    assert "copied: judge: 0 of 200" in status.stderr
    shown = json.loads(ft("rollout", "status", LINE, "--json").stdout)
    assert (shown["judged"]["judge"], shown["judged"]["trouble"]) == ("m at judge.example.com", "")


def test_an_option_that_cannot_be_read_is_named(ft: Ft, adapters: list[Artifact]) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    ft("promote", first, "--to", "production", "--reason", "good")
    for option, value, said in (
        ("--steps", "one,100", "is not a list of percentages"),
        ("--margin", "thumbs", "is not a margin"),
        ("--margin", "thumbs=much", "is not a margin"),
        ("--outcome", "mood", "'mood' is not a kind of outcome"),
    ):
        refused = ft("rollout", "start", LINE, "--candidate", second, "--reason", "try it", option, value)
        assert (refused.exit_code, said in refused.stderr) == (2, True), (option, value, refused.stderr)


def test_the_candidate_is_the_one_in_staging_if_none_is_named(ft: Ft, adapters: list[Artifact]) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    ft("promote", first, "--to", "production", "--reason", "good")
    ft("promote", second, "--to", "staging", "--reason", "good")
    started = ft("rollout", "start", LINE, "--outcome", "thumbs", "--reason", "try it")
    assert started.stdout.endswith(f" {second} 1%\n")
