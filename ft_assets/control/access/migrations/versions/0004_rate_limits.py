"""Requests of keys, tenants and addresses."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Create the table, unlogged in PostgreSQL, so that counting a request waits for no disk: after a crash, counting
    simply starts again."""
    op.create_table(
        "rate_limits",
        sa.Column("subject", sa.String(200), primary_key=True),
        sa.Column("full_at", sa.Float, nullable=False),
        sa.Column("refused", sa.Boolean, nullable=False),
        prefixes=["UNLOGGED"] if op.get_bind().dialect.name == "postgresql" else [],
    )


def downgrade() -> None:
    """Drop the table."""
    op.drop_table("rate_limits")
