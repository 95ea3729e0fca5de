"""Alembic's environment for the ledger; ``versions`` holds its migrations in order."""
