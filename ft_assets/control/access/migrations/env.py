"""Alembic's entry: runs the versions on the connection that ``Database`` opened.

Each version spells out its own columns and imports none of ``access/tables.py``, which keep changing.
"""

from alembic import context

context.configure(connection=context.config.attributes["connection"])
with context.begin_transaction():
    context.run_migrations()
