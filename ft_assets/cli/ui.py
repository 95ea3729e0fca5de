"""``ft ui``: Dagster and the report pages, on this machine and for the person at it."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from ft_assets.settings.environment import LOCATION, open_store, reports_url

POLL_S = 0.2
# The code location has the same name outside a project, or a job's list of runs would lack those of `ft run`.
WORKSPACE = f"load_from: [{{python_module: {{module_name: ft_assets.definitions, location_name: {LOCATION}}}}}]\n"
# It advises another command, which knows nothing of this project's state.
NO_ADVICE = "ignore:Function `dev_command` is superseded"


def ui(port: Annotated[int, typer.Option("--port", "-p", help="Port of Dagster's pages.")] = 3000) -> None:
    """Open Dagster on this project's state, and beside it the report pages that it links to. Ends with SIGTERM or
    Ctrl-C; trainings that are under way go on.
    """
    import uvicorn

    from ft_assets.cli.output import note
    from ft_assets.server.reports import report_app
    from ft_resources.process_trees import end_tree

    application = report_app(open_store())
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    place = urlsplit(reports_url())
    pages = uvicorn.Server(uvicorn.Config(application, host="127.0.0.1", port=place.port or 80, log_level="warning"))
    serving = threading.Thread(target=pages.run, name="report-pages", daemon=True)
    serving.start()
    workspace = Path(os.environ["DAGSTER_HOME"]) / "workspace.yaml"
    if not workspace.is_file():
        workspace = Path(os.environ["FT_STATE"]) / "workspace.yaml"
        workspace.write_text(WORKSPACE, encoding="utf-8")
    python = [sys.executable, "-W", NO_ADVICE]
    dagster = subprocess.Popen([*python, "-m", "dagster", "dev", "-w", str(workspace), "-p", str(port)])
    note(f"Dagster: http://127.0.0.1:{port}; report pages: {reports_url()}; for you alone, on this machine only")
    while dagster.poll() is None and not stop.wait(POLL_S):
        if not serving.is_alive():
            note(f"report pages cannot be served at {reports_url()}; free the port, or set FT_REPORTS_URL to another")
            stop.set()
    end_tree(dagster.pid)
    pages.should_exit = True
    serving.join(timeout=1.0)
    raise typer.Exit(0 if stop.is_set() else 1)
