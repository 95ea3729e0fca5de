"""API keys."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "api_keys",
        sa.Column("prefix", sa.String(16), primary_key=True),
        sa.Column("secret_sha256", sa.String(64), nullable=False),
        sa.Column("tenant", sa.String(40), nullable=False),
        sa.Column("role", sa.String(20), nullable=False),
        sa.Column("name", sa.String(100), nullable=False),
        sa.Column("created_by", sa.String(200), nullable=False),
        sa.Column("created_at", sa.Float, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=True),
        sa.Column("revoked_by", sa.String(200), nullable=False),
        sa.Column("revoked_at", sa.Float, nullable=True),
    )
    op.create_index("api_keys_of_a_tenant", "api_keys", ["tenant"])


def downgrade() -> None:
    """Drop the table. The keys in it are lost: only their holders know them."""
    op.drop_table("api_keys")
