"""Usage and decisions are keyed by tenant and attempt: equal work of two tenants has one fingerprint."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Recreate both tables with their rows."""
    op.drop_index("usage_by_month", "usage")
    for table in ("usage", "refunds"):
        op.rename_table(table, f"{table}_0001")
    _create()
    op.execute(f"INSERT INTO usage ({_USAGE}) SELECT {_USAGE} FROM usage_0001")
    op.execute(
        "INSERT INTO refunds (tenant, key, decision, actor, reason, at) SELECT usage_0001.tenant, refunds_0001.key, "
        "decision, refunds_0001.actor, reason, at FROM refunds_0001 JOIN usage_0001 "
        "ON usage_0001.key = refunds_0001.key"
    )
    for table in ("usage_0001", "refunds_0001"):
        op.drop_table(table)


_USAGE = (
    "key, tenant, month, asset, label, actor, started_at, ended_at, gpus, gpu_type, outcome, refund, gpu_hours, price, "
    "currency, evidence"
)


def _create() -> None:
    op.create_table(
        "usage",
        sa.Column("tenant", sa.String(40), primary_key=True),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("asset", sa.String(40), nullable=False),
        sa.Column("label", sa.String(300), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("started_at", sa.Float, nullable=False),
        sa.Column("ended_at", sa.Float, nullable=False),
        sa.Column("gpus", sa.Integer, nullable=False),
        sa.Column("gpu_type", sa.String(100), nullable=False),
        sa.Column("outcome", sa.String(40), nullable=False),
        sa.Column("refund", sa.String(10), nullable=False),
        sa.Column("gpu_hours", sa.Float, nullable=False),
        sa.Column("price", sa.Float, nullable=False),
        sa.Column("currency", sa.String(10), nullable=False),
        sa.Column("evidence", sa.JSON, nullable=False),
    )
    op.create_index("usage_by_month", "usage", ["month", "tenant"])
    op.create_table(
        "refunds",
        sa.Column("tenant", sa.String(40), primary_key=True),
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("decision", sa.String(10), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
    )


def downgrade() -> None:
    """Not supported: the first schema cannot hold two equal keys. Refill the ledger from the store instead."""
    raise NotImplementedError("drop the tables and open the ledger with the older code: it fills them from the store")
