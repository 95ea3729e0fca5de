"""``ft serve`` as a process over a project."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from tests.e2e.dagster_server import LONG_S, free_port, tail, wait_for
from tests.e2e.project import Project


@contextmanager
def ft_serve(project: Project, *options: str, port: int = 0) -> Iterator[str]:
    """The API's address, once it answers, until the block ends; the server's log is printed then."""
    port = port or free_port()
    file = project.folder / "serve.log"
    command = [str(Path(sys.executable).parent / "ft"), "serve", "--port", str(port), *options]
    with file.open("ab") as log:
        server = subprocess.Popen(command, env=project.environment, cwd=project.folder, stdout=log, stderr=log)
        try:
            wait_for(lambda: _answers(port), LONG_S, "the API")
            yield f"http://127.0.0.1:{port}"
        finally:
            server.terminate()
            server.wait()
            print(tail(file))


def _answers(port: int) -> bool:
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False
