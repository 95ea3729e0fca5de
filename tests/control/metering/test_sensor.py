"""The metering sensor on a real store and ledger, and the commands over them."""

import json
from datetime import UTC, datetime

import dagster as dg
import pytest

from ft_assets.control.metering.ledger import Ledger
from ft_assets.control.metering.quota import taken_hours
from ft_assets.control.metering.usage import month_of
from ft_assets.records.submissions import SubmissionStatus, finish
from ft_resources.dagster_resources import StoreResource
from ft_resources.outcomes import Outcome
from ft_sensors.metering import metering_sensor
from tests.cli.conftest import Ft, ft, instance, project  # noqa: F401
from tests.control.metering.test_usage import attempt_at
from tests.control.submissions.estimate_world import DATASET, World
from tests.made import submitted


@pytest.fixture
def world(world: World, tmp_path, monkeypatch: pytest.MonkeyPatch) -> World:
    (tmp_path / "tenants.yaml").write_text(
        "gpu_prices: {H100: 4.0}\ntenants: {acme: {quota: {soft_gpu_hours: 1, hard_gpu_hours: 400}}}\n"
    )
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    monkeypatch.setenv("FT_STORE", world.project.store_url)
    monkeypatch.setenv("FT_METERING_DB", f"sqlite:///{tmp_path}/metering.db")
    monkeypatch.setenv("FT_TRACKING", "off")
    return world


@pytest.fixture
def commands(ft: Ft, world: World, monkeypatch: pytest.MonkeyPatch, tmp_path) -> Ft:  # noqa: F811
    """The commands on this world: their own fixture has a project of its own."""
    monkeypatch.setenv("FT_STORE", world.project.store_url)
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    return ft


def tick(world: World) -> str:
    context = dg.build_sensor_context(instance=dg.DagsterInstance.ephemeral())
    skip = metering_sensor(context, store=StoreResource(url=world.project.store_url))
    return str(skip.skip_message)


def now_attempt(world: World, monkeypatch: pytest.MonkeyPatch, outcome: Outcome) -> None:
    monkeypatch.setattr("tests.control.metering.test_usage.AT", datetime.now(UTC).timestamp())
    attempt_at(world.store, outcome=outcome)


def test_a_promise_becomes_usage_once_the_submission_has_ended_and_twice_changes_nothing(world, monkeypatch) -> None:
    month = month_of(datetime.now(UTC))
    asked = submitted(world.store, DATASET, "large.v1")
    _, promised = taken_hours(world.store, "acme", month)
    assert promised > 0
    now_attempt(world, monkeypatch, Outcome.DONE)
    assert "counted 1 attempts" in tick(world)
    assert taken_hours(world.store, "acme", month) == (6.0, promised)
    finish(world.store, asked, SubmissionStatus.REJECTED, reason="no gain")
    assert "1 reservations ended" in tick(world)
    assert "counted 0 attempts" in tick(world)
    assert taken_hours(world.store, "acme", month) == (6.0, 0.0)


def test_a_ledger_that_was_down_or_lost_is_filled_from_the_store(world, monkeypatch, tmp_path) -> None:
    url = f"sqlite:///{tmp_path}/metering.db"
    monkeypatch.setenv("FT_METERING_DB", "postgresql://nobody@127.0.0.1:1/none")
    now_attempt(world, monkeypatch, Outcome.DONE)
    assert "does not answer" in tick(world)
    monkeypatch.setenv("FT_METERING_DB", url)
    tick(world)
    ledger = Ledger(url)
    month = month_of(datetime.now(UTC))
    assert [row.gpu_hours for row in ledger.usage_rows("acme", month)] == [pytest.approx(6.0)]


def test_the_report_says_what_is_billed_flagged_and_promised(world, commands, monkeypatch) -> None:
    now_attempt(world, monkeypatch, Outcome.OUT_OF_MEMORY)
    (report,) = json.loads(commands("usage", "--json", "--attempts").stdout)
    assert (report["tenant"], report["billed_hours"], report["flagged_hours"]) == ("acme", 6.0, 6.0)
    assert (report["overage_hours"], report["cost"]) == (5.0, 24.0)
    key = report["attempts_listed"][0]["key"]
    assert "refund, by" in commands("refund", "acme", key, "--reason", "we said that it fits").stdout
    (report,) = json.loads(commands("usage", "acme", "--json").stdout)
    assert (report["billed_hours"], report["flagged_hours"], report["cost"]) == (0.0, 0.0, 0.0)
    assert "acme" in commands("usage").stdout
    wrong = commands("usage", "acme", "--month", "November")
    assert wrong.exit_code == 2
    assert "'November' is not a month" in wrong.stderr


def test_what_is_counted_or_refunded_months_later_comes_to_the_ledger_by_itself(
    world: World, commands: Ft, monkeypatch: pytest.MonkeyPatch, tmp_path
) -> None:
    monkeypatch.setattr("tests.control.metering.test_usage.AT", datetime(2025, 1, 15, tzinfo=UTC).timestamp())
    attempt_at(world.store, outcome=Outcome.OUT_OF_MEMORY)
    tick(world)
    ledger = Ledger(f"sqlite:///{tmp_path}/metering.db")
    (row,) = ledger.usage_rows("acme", "2025-01")
    assert row.flagged
    commands("refund", "acme", row.key, "--month", "2025-01", "--reason", "ours")
    assert [found.decision for found in ledger.usage_rows("acme", "2025-01")] == ["refund"]
