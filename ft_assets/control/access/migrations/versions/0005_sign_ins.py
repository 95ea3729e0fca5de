"""Sign-ins by OpenID Connect that are under way."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"


def upgrade() -> None:
    """Create the table."""
    op.create_table(
        "sign_ins",
        sa.Column("token_sha256", sa.String(64), primary_key=True),
        sa.Column("browser_sha256", sa.String(64), nullable=False),
        sa.Column("kind", sa.String(20), nullable=False),
        sa.Column("step", sa.Text, nullable=False),
        sa.Column("expires_at", sa.Float, nullable=False),
    )


def downgrade() -> None:
    """Drop the table: sign-ins under way have to begin again."""
    op.drop_table("sign_ins")
