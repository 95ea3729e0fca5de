"""The access database's tables as the code reads them; ``migrations`` creates them, and a test compares the two."""

import sqlalchemy as sa

metadata = sa.MetaData()

api_keys = sa.Table(
    "api_keys",
    metadata,
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
    sa.Index("api_keys_of_a_tenant", "tenant"),
)
audit = sa.Table(
    "audit",
    metadata,
    sa.Column("tenant", sa.String(40), primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("at", sa.Float, nullable=False),
    sa.Column("actor", sa.String(200), nullable=False),
    sa.Column("peer", sa.String(100), nullable=False),
    sa.Column("method", sa.String(10), nullable=False),
    sa.Column("path", sa.String(500), nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("request", sa.String(40), nullable=False),
    sa.Column("digest", sa.String(64), nullable=False),
)
sessions = sa.Table(
    "sessions",
    metadata,
    sa.Column("token_sha256", sa.String(64), primary_key=True),
    sa.Column("tenant", sa.String(40), nullable=False),
    sa.Column("role", sa.String(20), nullable=False),
    sa.Column("actor", sa.String(200), nullable=False),
    sa.Column("proof", sa.String(600), nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
    sa.Column("expires_at", sa.Float, nullable=False),
    sa.Column("revoked_at", sa.Float, nullable=True),
)
rate_limits = sa.Table(
    "rate_limits",
    metadata,
    sa.Column("subject", sa.String(200), primary_key=True),
    sa.Column("full_at", sa.Float, nullable=False),
    sa.Column("refused", sa.Boolean, nullable=False),
)
sign_ins = sa.Table(
    "sign_ins",
    metadata,
    sa.Column("token_sha256", sa.String(64), primary_key=True),
    sa.Column("browser_sha256", sa.String(64), nullable=False),
    sa.Column("kind", sa.String(20), nullable=False),
    sa.Column("step", sa.Text, nullable=False),
    sa.Column("expires_at", sa.Float, nullable=False),
)
link_keys = sa.Table(
    "link_keys",
    metadata,
    sa.Column("id", sa.String(16), primary_key=True),
    sa.Column("secret", sa.String(64), nullable=False),
    sa.Column("created_at", sa.Float, nullable=False),
)
