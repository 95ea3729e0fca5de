"""Parity as an asset check: what a pair's page shows of its adapter's servers."""

from pathlib import Path

import dagster as dg
import pytest

from ft_assets.control.parity.servers import settings_by_server
from ft_assets.graph.checks.serving import parity_result, report_parity
from ft_assets.graph.listed_keys import list_keys
from ft_assets.settings.servers import ServersFile
from ft_resources.store_marker import open_store
from tests.control.lines.promotable import RECIPE, Promotable
from tests.control.parity.test_demanded import checked
from tests.workers.evals.world import World

DATASET = "acme.things.v1"
DEMANDED = "production_parity: true\n"


@pytest.fixture
def tenants(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "tenants.yaml"
    file.write_text("{}\n")
    monkeypatch.setenv("FT_TENANTS", str(file))
    servers = tmp_path / "servers.yaml"
    servers.write_text("servers: []\n")
    monkeypatch.setenv("FT_SERVERS", str(servers))
    return file


@pytest.fixture
def line(tmp_path: Path, tenants: Path) -> Promotable:
    return Promotable.make(World(store=open_store(str(tmp_path / "store"), create=True), folder=tmp_path))


def settings_of(line: Promotable):
    return settings_by_server(line.base, ServersFile())["embedded"]


def test_without_a_demand_only_a_failed_check_is_a_fail_and_no_error(line: Promotable) -> None:
    adapter = line.adapter()
    result = parity_result(line.world.artifacts, adapter)
    assert (result.passed, result.description) == (True, "not required, and not checked")
    checked(line, adapter, settings_of(line), "not proved")
    assert parity_result(line.world.artifacts, adapter).passed
    checked(line, adapter, settings_of(line), "failed")
    result = parity_result(line.world.artifacts, adapter)
    assert (result.passed, result.severity) == (False, dg.AssetCheckSeverity.WARN)


def test_with_a_demand_it_fails_until_the_servers_are_proved_and_shows_the_record(
    line: Promotable, tenants: Path
) -> None:
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


def test_settings_that_cannot_be_read_are_a_fail_and_end_no_run(line: Promotable, tenants: Path) -> None:
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
