"""The ledger on SQLite and on a real PostgreSQL: filled at least once, each row there once, reports from it."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from ft_assets.control.metering.ledger import Ledger
from ft_assets.control.metering.refunds import RefundDecision
from ft_assets.control.metering.report import month_report
from ft_assets.control.metering.tables import metadata
from ft_assets.control.metering.usage import UsageRecord
from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus
from ft_assets.settings.tenants import Quota
from ft_resources.errors import UserError
from tests.made import made_submission

HOUR, NOVEMBER = 3600.0, 1763208000.0  # 2025-11-15 12:00 UTC


@pytest.fixture
def url(url: str) -> str:
    """SQLite's file in a folder that is not there yet."""
    return url.replace("/metering.db", "/deep/metering.db")


def record(
    key: str, hours: float, *, tenant: str = "acme", refund: str = "none", price: float = 2.0, **more: Any
) -> UsageRecord:
    """The hours of one GPU that ended in November, unless ``more`` says otherwise."""
    ended_at = more.pop("ended_at", NOVEMBER + hours * HOUR)
    values = {
        "asset": "checkpoint",
        "label": "acme.a.v1|r.v1",
        "actor": "ann",
        "gpus": 1,
        "gpu_type": "H100",
        "outcome": "done" if refund == "none" else "out_of_memory",
        "currency": "EUR",
        "evidence": {"pod": {"name": "p", "reason": None}},
        **more,
    }
    at = {"started_at": ended_at - hours * HOUR, "ended_at": ended_at}
    return UsageRecord(key=key, tenant=tenant, refund=refund, price=price, **at, **values)


def ended(number: int, status: SubmissionStatus, tenant: str = "acme") -> tuple[Submission, SubmissionOutcome]:
    submission = made_submission(id=f"{number:016x}", dataset=f"{tenant}.a.v1", idempotency_key=str(number))
    return submission, SubmissionOutcome(status=status, at="2025-11-15T12:00:00.000+00:00")


def test_filling_it_twice_and_by_several_at_once_changes_nothing(url: str) -> None:
    barrier = threading.Barrier(4)

    def fill(_: int) -> None:
        barrier.wait()
        ledger = Ledger(url)
        for _ in range(2):
            ledger.add_usage([record(f"checkpoint.{number}.0001", 1.0) for number in range(20)])
            ledger.add_jobs([ended(1, SubmissionStatus.ACCEPTED)])
        ledger.close()

    Ledger(url).close()
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(fill, range(4)))
    ledger = Ledger(url)
    assert sum(row.gpu_hours for row in ledger.usage_rows("acme", "2025-11")) == pytest.approx(20.0)
    assert ledger.job_counts("acme", "2025-11") == {"accepted": 1}


def test_a_rejected_or_ungated_candidate_is_a_delivered_result_billed_and_no_failure(url: str) -> None:
    ledger = Ledger(url)
    ledger.add_jobs([ended(number, status) for number, status in enumerate(SubmissionStatus)])
    ledger.add_usage([record("checkpoint.a.0001", 3.0)])
    report = month_report(
        "acme", "2025-11", ledger.usage_rows("acme", "2025-11"), ledger.job_counts("acme", "2025-11"), Quota(), "USD"
    )
    assert report.jobs == {"accepted": 1, "cancelled": 1, "failed": 1, "rejected": 1, "ungated": 1}
    assert report.success_rate == pytest.approx(3 / 4)
    assert (report.billed_hours, report.cost, report.currency) == (3.0, 6.0, "EUR")


def test_refunds_and_overage_make_the_cost(url: str) -> None:
    ledger = Ledger(url)
    ledger.add_usage(
        [
            record("checkpoint.a.0001", 4.0),
            record("checkpoint.b.0001", 5.0, refund="full"),
            record("checkpoint.c.0001", 6.0, refund="flagged"),
            record("checkpoint.d.0001", 7.0, refund="flagged"),
        ]
    )
    ledger.add_refunds(
        "acme", [RefundDecision(key="checkpoint.c.0001", decision="refund", actor="bo", reason="r", at="now")]
    )
    quota = Quota(soft_gpu_hours=5.0, overage_factor=1.5)
    report = month_report("acme", "2025-11", ledger.usage_rows("acme", "2025-11"), {}, quota, "USD")
    assert (report.gpu_hours, report.billed_hours, report.refunded_hours) == (22.0, 11.0, 11.0)
    assert (report.flagged_hours, report.overage_hours) == (7.0, 6.0)
    assert report.cost == pytest.approx(2.0 * (5.0 + 6.0 * 1.5))
    assert report.success_rate is None


def test_the_migrations_make_exactly_the_tables_that_the_code_reads(url: str) -> None:
    import sqlalchemy as sa
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext

    Ledger(url).close()
    with sa.create_engine(url.replace("postgresql:", "postgresql+psycopg2:")).connect() as connection:
        context = MigrationContext.configure(connection)
        assert compare_metadata(context, metadata) == []


def test_a_database_that_is_not_there_is_an_error_that_says_nothing_is_lost(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not answer") as caught:
        Ledger("postgresql://nobody@127.0.0.1:1/none")
    assert "Nothing is lost" in caught.value.remedy
    with pytest.raises(UserError, match="cannot be used"):
        Ledger("no such thing")


DYING = """
import os, sys
import sqlalchemy as sa
from ft_assets.control.metering.ledger import Ledger

left = int(sys.argv[2])

@sa.event.listens_for(sa.Engine, "before_cursor_execute")
def counted(connection, cursor, statement, parameters, context, many):
    global left
    left -= statement.lstrip().startswith(("CREATE", "INSERT"))
    if left < 0:
        os._exit(9)

Ledger(sys.argv[1]).close()
"""


@pytest.mark.parametrize("statements", [2, *(pytest.param(each, marks=pytest.mark.long) for each in (1, 4))])
def test_a_process_that_dies_in_a_migration_leaves_no_half_schema(url: str, statements: int) -> None:
    died = subprocess.run([sys.executable, "-c", DYING, url, str(statements)])
    assert died.returncode == 9
    ledger = Ledger(url)
    ledger.add_usage([record("a", 1.0)])
    assert [row.key for row in ledger.usage_rows("acme", "2025-11")] == ["a"]
    ledger.close()
