"""The ledger's tables as the code reads them; ``migrations`` creates them, and a test compares the two."""

import sqlalchemy as sa

metadata = sa.MetaData()


def _text(name: str, most: int, *, primary_key: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.String(most), primary_key=primary_key, nullable=False)


def _number(name: str) -> "sa.Column[float]":
    return sa.Column(name, sa.Float, nullable=False)


usage = sa.Table(
    "usage",
    metadata,
    # Fingerprints do not include the tenant: equal work of two tenants has the same key.
    _text("tenant", 40, primary_key=True),
    _text("key", 200, primary_key=True),
    _text("month", 7),
    _text("asset", 40),
    _text("label", 300),
    _text("actor", 200),
    _number("started_at"),
    _number("ended_at"),
    sa.Column("gpus", sa.Integer, nullable=False),
    _text("gpu_type", 100),
    _text("outcome", 40),
    _text("refund", 10),
    _number("gpu_hours"),
    _number("price"),
    _text("currency", 10),
    sa.Column("evidence", sa.JSON, nullable=False),
    sa.Index("usage_by_month", "month", "tenant"),
)
refunds = sa.Table(
    "refunds",
    metadata,
    _text("tenant", 40, primary_key=True),
    _text("key", 200, primary_key=True),
    _text("decision", 10),
    _text("actor", 200),
    sa.Column("reason", sa.Text, nullable=False),
    _text("at", 40),
)
jobs = sa.Table(
    "jobs",
    metadata,
    _text("submission", 16, primary_key=True),
    _text("tenant", 40),
    _text("month", 7),
    _text("pair", 300),
    _text("actor", 200),
    _text("origin", 20),
    _text("status", 20),
    _text("asked_at", 40),
    _text("ended_at", 40),
    sa.Index("jobs_by_month", "month", "tenant"),
)
