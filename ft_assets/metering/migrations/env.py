"""Alembic's entry: runs the versions on the connection that ``Ledger`` opened."""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
