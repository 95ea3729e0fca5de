"""``ft ui``: Dagster and the report pages, on this machine and for the person at it."""

import os
import secrets
import signal
import socket
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer

from ft_assets.cli.door import require_store
from ft_assets.cli.ports import free_port, listener, only_dagster
from ft_assets.cli.terminal import relayed
from ft_assets.settings.environment import LOCATION, open_store, public_url, reports_url
from ft_resources.errors import UserError

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


def ui(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65535, help="Port of the Dagster UI; another one if it is in use.")
    ] = 3000,
) -> None:
    """Start the Dagster UI and the report pages for this project. Stop with SIGTERM or Ctrl-C; running trainings
    continue.
    """
    from ft_assets.server.reports import report_app

    require_store("ft ui")
    reports = report_app(open_store())
    with only_dagster("Open the printed address, or stop it first."):
        _serve(port, reports)


def _serve(port: int, reports: Any) -> None:
    import httpx

    from ft_assets.cli.output import note
    from ft_assets.server.dagster_proxy import dagster_proxy, new_prefix
    from ft_assets.server.serving import server_of
    from ft_resources.process_trees import end_tree

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    hidden, prefix, token = free_port(), new_prefix(), secrets.token_urlsafe(24)
    proxy = dagster_proxy(f"http://127.0.0.1:{hidden}", prefix, token)
    sockets = {"report pages": _reports_listener(), "Dagster's pages": listener(port, "Dagster's pages")}
    port = sockets["Dagster's pages"].getsockname()[1]
    # They listen on these sockets, and have the limits of every server here.
    servers = [server_of(pages, host="127.0.0.1", port=port, drain_s=1) for pages in (reports, proxy)]
    serving = [
        threading.Thread(target=server.run, kwargs={"sockets": [each]}, name=name, daemon=True)
        for server, (name, each) in zip(servers, sockets.items(), strict=True)
    ]
    for thread in serving:
        thread.start()
    workspace = Path(os.environ["DAGSTER_HOME"]) / "workspace.yaml"
    if not workspace.is_file():
        workspace = Path(os.environ["FT_STATE"]) / "workspace.yaml"
        workspace.write_text(WORKSPACE, encoding="utf-8")
    python = [sys.executable, "-W", NO_ADVICE]
    listen = ["-h", "127.0.0.1", "-p", str(hidden)]
    dagster, output = relayed(
        [*python, "-c", _DAGSTER, "dev", "-w", str(workspace), *listen],
        {**os.environ, "DAGSTER_WEBSERVER_PATH_PREFIX": prefix},
    )
    told, failed = False, False
    while dagster.poll() is None and not failed and not stop.wait(POLL_S):
        failed = not all(thread.is_alive() for thread in serving)
        if not told and all(server.started for server in servers):
            with suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{hidden}{prefix}/server_info", trust_env=False).raise_for_status()
                note(f"report pages: {reports_url()}; Dagster, for you alone: http://127.0.0.1:{port}/?token={token}")
                told = True
    end_tree(dagster.pid)
    for server in servers:
        server.should_exit = True
    for thread in (*serving, output):
        thread.join(timeout=1.0)
    raise typer.Exit(0 if stop.is_set() else 1)


def _reports_listener() -> socket.socket:
    """Raises UserError where the port that FT_REPORTS_URL names is taken: links that are out lead there."""
    port = urlsplit(reports_url()).port or 80
    if "FT_REPORTS_URL" not in os.environ:
        found = listener(port, "report pages")
        if (other := found.getsockname()[1]) != port and not public_url():
            # Dagster, which is started next, writes links to them.
            os.environ["FT_REPORTS_URL"] = f"http://127.0.0.1:{other}"
        return found
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise UserError(
            f"report pages cannot be served at port {port} ({error.strerror})",
            where="FT_REPORTS_URL",
            remedy="Free the port, or choose another one.",
        ) from error
