"""Decisions at a server: recorded in the name of the key's holder, by those whose role allows them."""

import json
from collections.abc import Callable

import pytest
import yaml

from ft_assets import api
from ft_assets.control.lines.lines import read_line
from ft_assets.records.sources import watches
from ft_resources.artifacts import Artifact
from tests.cli.conftest import RECIPE, Ft
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE
from tests.e2e.project import Project
from tests.remote.conftest import Far

pytestmark = pytest.mark.dagster
FarAs = Callable[..., Far]


def test_a_line_goes_to_production_and_back_in_the_name_of_the_keys_holder(
    far: Far, adapters: list[Artifact], project: Project
) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    assert far("promote", first[:30], "--to", "staging", "--reason", "try it").stdout == f"{LINE} staging {first}\n"
    assert far("promote", first, "--to", "production", "--reason", "good").exit_code == 0
    assert "already in this stage" in far("promote", first, "--to", "production", "--reason", "good").stderr
    assert far("promote", second, "--to", "production", "--reason", "better").exit_code == 0
    back = far("rollback", LINE, "--reason", "worse after all")
    assert back.stdout == f"{LINE} production {first}\n"
    assert {record.actor.split(" (key ")[0] for record in read_line(project.store, LINE).records} == {"bea"}
    assert json.loads(far("line", LINE, "--json").stdout)["production"] == first
    refused = far("promote", LINE, "--to", "heaven", "--reason", "x")
    assert (refused.exit_code, refused.stderr) == (
        2,
        "Error: 'heaven' is not a stage\n  where: stage\n"
        "  what to do: Use dev, staging, production, deprecated, archived.\n",
    )


def test_a_second_person_approves_or_declines_at_the_server(
    far_as: FarAs, adapters: list[Artifact], project: Project, access: api.Access
) -> None:
    with (project.folder / "tenants.yaml").open("a") as file:
        file.write("production_second_person: true\n")
    bea, zoe = far_as(), far_as(name="zoe")
    first = str(adapters[0].address)
    waits = bea("promote", first, "--to", "production", "--reason", "good")
    assert waits.exit_code == 0, waits.stderr
    assert waits.stdout.startswith(f"{LINE} proposal ")
    assert "waiting: production of acme.things.tiny requires approval" in waits.stderr
    assert "pending approval" in bea("line", LINE).stderr
    assert bea("approve", LINE, "--note", "good").exit_code == 2
    assert zoe("approve", LINE, "--note", "good").stdout == f"{LINE} production {first}\n"
    bea("promote", str(adapters[1].address), "--to", "production", "--reason", "better")
    assert bea("decline", LINE, "--reason", "no").stdout.endswith(" withdrawn\n")


def test_a_rollout_is_started_and_ended_at_the_server(far: Far, adapters: list[Artifact], project: Project) -> None:
    first, second = (str(adapter.address) for adapter in adapters)
    judge = {"model": {"endpoint": "https://judge.example.com/v1", "model": "m", "allow_same_family": True}}
    lines = {LINE.partition(".")[2]: {"traffic": {"keep": True}, "rollouts": {"judge": judge}}}
    with (project.folder / "tenants.yaml").open("a") as file:
        file.write(
            yaml.safe_dump({"judge_hosts": [{"host": "judge.example.com"}], "tenants": {"acme": {"lines": lines}}})
        )
    far("promote", first, "--to", "production", "--reason", "good")
    shadow = ("--shadow", "25", "--outcome", "refusal")
    copied = far("rollout", "start", LINE, "--candidate", second, *shadow, "--reason", "try it")
    assert copied.stdout.endswith(f" {second} 25% copied\n"), copied.stderr
    shown = json.loads(far("rollout", "status", LINE, "--json").stdout)
    assert (shown["shadow"], shown["judged"]["judge"]) == (25, "m at judge.example.com")
    assert far("rollout", "cancel", LINE, "--reason", "enough").exit_code == 0
    options = ("--steps", "5,100", "--outcome", "thumbs", "--margin", "thumbs=0.1", "--reason", "try it")
    started = far("rollout", "start", LINE, "--candidate", second, *options)
    assert started.exit_code == 0, started.stderr
    assert started.stdout.endswith(f" {second} 5%\n")
    status = json.loads(far("rollout", "status", LINE, "--json").stdout)
    assert status["weights"] == {second: 5, first: 95}
    assert status["next"].startswith("wait: outcomes of the candidate at 5 %")
    assert status["records"][0]["actor"].startswith("bea (key ")
    assert far("rollout", "cancel", LINE, "--reason", "not today").exit_code == 0


def test_what_is_deleted_at_the_server_comes_back(far: Far, adapters: list[Artifact]) -> None:
    first = str(adapters[0].address)
    far("promote", first, "--to", "production", "--reason", "good")
    result = far("delete", "acme.things.v1", first, "--reason", "contract ended")
    assert result.exit_code == 0, result.stderr
    assert "dataset acme.things.v1: deleted by bea (key " in result.stdout
    assert f"in production of {LINE}" in result.stderr
    restored = far("restore", "acme.things.v1", "--reason", "a mistake")
    assert restored.stdout == "dataset acme.things.v1: restored\n"
    assert "this is a tenant" in far("delete", "acme", "--reason", "x").stderr


def test_keys_are_made_listed_and_revoked_and_requests_are_told(far: Far) -> None:
    made = far("key", "create", "acme", "--role", "member", "--name", "ci", "--expires", "90d")
    assert made.exit_code == 0, made.stderr
    prefix = made.stdout.split("-")[1]
    assert f"ft key revoke {prefix}" in made.stderr
    assert "ci" in far("key", "list").stdout
    assert f"revoked {prefix} of acme, by bea (key " in far("key", "revoke", prefix).stderr
    far("lineage", "acme.things.v1")
    far("estimate", "acme.things.v1", RECIPE)
    told = far("audit").stdout
    assert "lineage" not in told
    assert "estimate" not in told
    assert "POST /v1/ft/calls/create_key" in told
    assert made.stdout.strip() not in told
    assert json.loads(far("audit", "--json").stdout.splitlines()[0])["status"] == 200
    for foreign in (("key", "create", "globex"), ("key", "list", "globex"), ("audit", "globex")):
        assert "a tenant's key means its own tenant" in far(*foreign).stderr


def test_the_platforms_key_makes_keys_of_any_tenant_and_does_nothing_else(far_as: FarAs) -> None:
    platform = far_as("shared", "platform")
    assert platform("key", "create", "globex", "--role", "admin").exit_code == 0
    assert "globex" in platform("key", "list").stdout
    assert "a platform key cannot act for a tenant" in platform("dataset", "list").stderr


MEMBERS = [
    ("promote", LINE, "--to", "dev", "--reason", "x"),
    ("rollback", LINE, "--reason", "x"),
    ("dataset", "approve", "acme.things.v1", "--note", "x"),
    ("recipe", "retire", f"acme.{RECIPE}", "--note", "x"),
    ("delete", "acme.things.v1", "--reason", "x"),
    ("key", "list"),
]
VIEWERS = [
    ("submit", "acme.things.v1", RECIPE),
    ("cancel", "0" * 16),
    ("pause", "0" * 16),
    ("resume", "0" * 16),
    ("dataset", "curate", "acme.things.v1"),
    ("verify", LINE),
]


def test_a_role_that_may_less_is_told_which_it_takes(far_as: FarAs, adapters: list[Artifact]) -> None:
    for role, commands in (("member", MEMBERS), ("viewer", VIEWERS)):
        asks = far_as(role=role)
        for command in commands:
            refused = asks(*command)
            assert refused.exit_code == 2, command
            assert f"the key has the role {role}" in refused.stderr, (command, refused.stderr)


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
