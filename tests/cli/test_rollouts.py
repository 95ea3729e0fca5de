"""Rollouts at the command line."""

import json

import pytest
import yaml

from ft_assets.control.rollouts.rollouts import read_rollouts
from ft_resources.artifacts import Artifact
from tests.cli.conftest import Ft
from tests.cli.test_lines import adapters as adapters
from tests.control.lines.promotable import LINE
from tests.e2e.project import Project

pytestmark = pytest.mark.dagster


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
