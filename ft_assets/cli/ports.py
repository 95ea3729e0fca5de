"""Where commands listen on this machine, and that only one of them runs Dagster on a project's state."""

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ft_resources.errors import UserError


def listener(port: int, what: str) -> socket.socket:
    """A socket that listens for this machine alone at ``port``; at a free one, which is said, where that is taken."""
    from ft_assets.cli.output import note

    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        found = socket.create_server(("127.0.0.1", 0))
        note(f"port {port} is in use: {what} use port {found.getsockname()[1]}")
        return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def in_use(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def only_dagster(remedy: str) -> Iterator[None]:
    """The right to run Dagster on this project's state, which ends with this process. Raises UserError with ``remedy``
    where another process has it: two daemons would launch each work twice."""
    with Path(os.environ["FT_STATE"], "ui.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UserError(
                "Dagster runs on this project already, by ft ui or ft serve --ui", where=file.name, remedy=remedy
            ) from error
        yield
