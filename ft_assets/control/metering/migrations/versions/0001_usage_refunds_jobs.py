"""Usage, refund decisions and ended submissions."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "usage",
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("tenant", sa.String(40), nullable=False),
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
        sa.Column("key", sa.String(200), primary_key=True),
        sa.Column("decision", sa.String(10), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("at", sa.String(40), nullable=False),
    )
    op.create_table(
        "jobs",
        sa.Column("submission", sa.String(16), primary_key=True),
        sa.Column("tenant", sa.String(40), nullable=False),
        sa.Column("month", sa.String(7), nullable=False),
        sa.Column("pair", sa.String(300), nullable=False),
        sa.Column("actor", sa.String(200), nullable=False),
        sa.Column("origin", sa.String(20), nullable=False),
        sa.Column("status", sa.String(20), nullable=False),
        sa.Column("asked_at", sa.String(40), nullable=False),
        sa.Column("ended_at", sa.String(40), nullable=False),
    )
    op.create_index("jobs_by_month", "jobs", ["month", "tenant"])


def downgrade() -> None:
    """Drop the tables; they can be refilled from the store."""
    for table in ("jobs", "refunds", "usage"):
        op.drop_table(table)
