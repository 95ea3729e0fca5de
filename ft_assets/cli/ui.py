"""``ft ui``: Dagster and the report pages, on this machine and for the person at it."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from ft_assets.cli.door import require_store
from ft_assets.settings.environment import LOCATION, open_store, reports_url

POLL_S = 0.2
# The code location has the same name outside a project, or a job's list of runs would lack those of `ft run`.
WORKSPACE = f"load_from: [{{python_module: {{module_name: ft_assets.definitions, location_name: {LOCATION}}}}}]\n"
# It advises another command, which knows nothing of this project's state.
NO_ADVICE = "ignore:Function `dev_command` is superseded"
# As `python -m dagster`, once its databases are there: a command or a server beside may be about to make them.
_DAGSTER = (
    "import runpy; from ft_assets.graph.instance import open_instance; open_instance().dispose(); "
    "runpy.run_module('dagster', run_name='__main__', alter_sys=True)"
)


def ui(port: Annotated[int, typer.Option("--port", "-p", help="Port of Dagster's pages.")] = 3000) -> None:
    """Open Dagster on this project's state, and beside it the report pages that it links to. Ends with SIGTERM or
    Ctrl-C; trainings that are under way go on.
    """
    import uvicorn

    from ft_assets.cli.output import note
    from ft_assets.server.dagster_proxy import dagster_proxy, new_prefix
    from ft_assets.server.reports import report_app
    from ft_resources.process_trees import end_tree

    require_store("ft ui")
    reports = report_app(open_store())
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    hidden, prefix, token = free_port(), new_prefix(), secrets.token_urlsafe(24)
    proxy = dagster_proxy(f"http://127.0.0.1:{hidden}", prefix, token)
    ports = {"report pages": urlsplit(reports_url()).port or 80, "Dagster's pages": port}
    servers = {
        name: uvicorn.Server(uvicorn.Config(pages, host="127.0.0.1", port=ports[name], log_level="warning"))
        for name, pages in zip(ports, (reports, proxy), strict=True)
    }
    serving = {name: threading.Thread(target=each.run, name=name, daemon=True) for name, each in servers.items()}
    for thread in serving.values():
        thread.start()
    workspace = Path(os.environ["DAGSTER_HOME"]) / "workspace.yaml"
    if not workspace.is_file():
        workspace = Path(os.environ["FT_STATE"]) / "workspace.yaml"
        workspace.write_text(WORKSPACE, encoding="utf-8")
    python = [sys.executable, "-W", NO_ADVICE]
    listen = ["-h", "127.0.0.1", "-p", str(hidden)]
    dagster = subprocess.Popen(
        [*python, "-c", _DAGSTER, "dev", "-w", str(workspace), *listen],
        env={**os.environ, "DAGSTER_WEBSERVER_PATH_PREFIX": prefix},
    )
    note(f"report pages: {reports_url()}; Dagster, for you alone: http://127.0.0.1:{port}/?token={token}")
    while dagster.poll() is None and not stop.wait(POLL_S):
        for name, thread in serving.items():
            if not thread.is_alive():
                note(
                    f"{name} cannot be served at port {ports[name]}; free it, or choose others by -p and FT_REPORTS_URL"
                )
                stop.set()
    end_tree(dagster.pid)
    for server in servers.values():
        server.should_exit = True
    for thread in serving.values():
        thread.join(timeout=1.0)
    raise typer.Exit(0 if stop.is_set() else 1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
