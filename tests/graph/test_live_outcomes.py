"""Rollouts and parity as asset checks: what a pair's page shows of its adapter where it is served."""

from pathlib import Path

import dagster as dg
import pytest

from ft_assets import api
from ft_assets.control.parity.servers import settings_by_server
from ft_assets.control.rollouts.asked import cancel
from ft_assets.graph.checks.rollouts import outcomes_result, report_outcomes
from ft_assets.graph.checks.serving import parity_result, report_parity
from ft_assets.graph.listed_keys import list_keys
from ft_assets.settings.servers import ServersFile
from tests.control.lines.promotable import LINE, RECIPE, SERVED, Promotable
from tests.control.parity.test_demanded import checked
from tests.control.rollouts.made import BEGIN, HOUR, Rolled

DATASET = "acme.things.v1"


@pytest.fixture
def rolled(line: Promotable) -> Rolled:
    return Rolled(line)


def test_a_candidate_that_was_taken_back_fails_with_the_evidence(rolled: Rolled) -> None:
    rolled.start()
    assert outcomes_result(rolled.artifacts, rolled.candidate).description == "no rollout of the adapter has ended"
    rolled.serve(45, (0.3, 0.9), BEGIN, "one")
    record = rolled.conduct(BEGIN + HOUR).record
    result = outcomes_result(rolled.artifacts, rolled.candidate)
    assert not result.passed
    assert result.description == f"rolled back: {record.reason}"
    assert result.metadata["thumbs"].value.startswith("thumbs: 0.289 good of 45")
    assert result.metadata["record"].value == record.path
    # It says nothing of the adapter that it was compared with.
    assert outcomes_result(rolled.artifacts, rolled.incumbent).passed


def test_a_rollout_that_a_person_ended_is_no_fail_and_one_that_cannot_be_read_is_and_ends_no_run(rolled) -> None:
    rolled.start()
    cancel(rolled.store, LINE, actor="ann", reason="the holidays")
    result = outcomes_result(rolled.artifacts, rolled.candidate)
    assert (result.passed, result.description) == (True, "cancelled: the holidays")
    rolled.store.put(rolled.start().path, b"{}")
    result = outcomes_result(rolled.artifacts, rolled.candidate)
    assert not result.passed
    assert "acme/rollouts/" in result.description


def test_an_end_is_shown_on_the_pair_that_dagster_knows_and_nothing_else_is(rolled: Rolled) -> None:
    shown = []
    rolled.start()
    rolled.serve(45, (0.3, 0.9), BEGIN, "one")
    with dg.DagsterInstance.ephemeral() as instance:
        assert not report_outcomes(instance, rolled.artifacts, rolled.candidate)
        list_keys(instance, dataset=DATASET, recipe=RECIPE)

        def show(artifacts, adapter):
            shown.append((adapter.address, report_outcomes(instance, artifacts, adapter)))

        for _ in range(2):
            api.advance_rollouts(store=rolled.store, tenants=SERVED, show=show)
    assert shown == [(rolled.candidate.address, True)]


DEMANDED = "production_parity: true\n"


@pytest.fixture(autouse=True)
def tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "tenants.yaml"
    file.write_text("{}\n")
    monkeypatch.setenv("FT_TENANTS", str(file))
    servers = tmp_path / "servers.yaml"
    servers.write_text("servers: []\n")
    monkeypatch.setenv("FT_SERVERS", str(servers))
    return file


def settings_of(line: Promotable):
    return settings_by_server(line.base, ServersFile())["embedded"]


def test_without_a_demand_only_a_failed_check_is_a_fail_and_no_error(line: Promotable) -> None:
    adapter = line.adapter()
    result = parity_result(line.world.artifacts, adapter)
    assert (result.passed, result.description) == (True, "not required, not checked")
    checked(line, adapter, settings_of(line), "not proved")
    assert parity_result(line.world.artifacts, adapter).passed
    checked(line, adapter, settings_of(line), "failed")
    result = parity_result(line.world.artifacts, adapter)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)


def test_with_a_demand_it_fails_until_the_servers_are_proved_or_where_settings_cannot_be_read(line, tenants) -> None:
    adapter = line.adapter()
    tenants.write_text(DEMANDED)
    result = parity_result(line.world.artifacts, adapter)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.ERROR)
    assert result.description.endswith(": not checked")
    checked(line, adapter, settings_of(line))
    result = parity_result(line.world.artifacts, adapter)
    assert result.passed, result.description
    assert result.metadata["one: outcome"].value == "proved"
    assert result.metadata["one: record"].value.startswith(f"acme/parity/{adapter.digest}/")
    tenants.write_text("production_parity: perhaps\n")
    result = parity_result(line.world.artifacts, line.adapter())
    assert not result.passed
    assert "production_parity" in result.description


def test_a_check_by_the_command_line_is_shown_on_the_pair_that_dagster_knows(line: Promotable) -> None:
    adapter = line.adapter()
    with dg.DagsterInstance.ephemeral() as instance:
        assert not report_parity(instance, line.world.artifacts, adapter)
        list_keys(instance, dataset=DATASET, recipe=RECIPE)
        assert report_parity(instance, line.world.artifacts, adapter)
