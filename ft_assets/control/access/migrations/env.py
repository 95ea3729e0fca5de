"""Alembic's entry: runs the versions on the connection that ``Database`` opened.

Each version spells out its own columns and imports none of ``access/tables.py``, which keep changing.
"""

from alembic import context

# The metering ledger's may be in the same database.
context.configure(connection=context.config.attributes["connection"], version_table="access_version")
with context.begin_transaction():
    context.run_migrations()
