"""Alembic's entry: runs the versions on the connection that ``Ledger`` opened.

Each version spells out its own columns and imports none of ``metering/tables.py``, which keep changing: later versions
must find what it made then.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
