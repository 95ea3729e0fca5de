"""Alembic's entry: runs the versions on the connection that ``Ledger`` opened.

Each version spells out the columns of its day and imports none of ``metering/tables.py``, which go on: the versions
after it must find what it made then.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
