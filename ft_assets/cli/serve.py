"""``ft serve``: the HTTP API."""

import socket
import subprocess
import sys
from typing import Annotated

import typer

from ft_assets.cli.door import api, require_store
from ft_assets.settings.environment import open_store
from ft_resources.errors import UserError

_UI = "import sys; from ft_assets.cli.main import app; sys.argv = ['ft', 'ui']; app()"
_UI_PORT = 3000


def serve(
    host: Annotated[str, typer.Option(help="Address to listen on; behind a proxy with TLS where others reach it.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option("--port", "-p", help="Port of the API.")] = 8000,
    proxy: Annotated[
        str,
        typer.Option(
            help="Addresses or networks of proxies, by commas, whose X-Forwarded-For and -Proto are believed."
        ),
    ] = "",
    ui: Annotated[bool, typer.Option("--ui", help="Start Dagster and the report pages too, as ft ui does.")] = False,
) -> None:
    """Serve OpenAI's fine-tuning API on this store, for holders of keys: ft key create TENANT. A running Dagster
    (ft ui, or the daemon of a cluster) does the work.
    """
    from ft_assets.cli.output import note
    from ft_assets.server.app import api_app
    from ft_assets.server.metrics.page import metrics_page
    from ft_assets.server.serving import server_of
    from ft_assets.server.settling import AT_ONCE
    from ft_assets.server.settling_apart import SettlingApart
    from ft_assets.settings.models import load_models

    require_store("ft serve")
    if ui and _in_use(_UI_PORT):
        raise UserError(
            f"port {_UI_PORT} is in use, by ft ui perhaps",
            where="--ui",
            remedy="Leave --ui out: the running Dagster does the work; or end what listens there.",
        )
    load_models()
    store = open_store(create=True)
    settlers = SettlingApart(store, AT_ONCE)
    application = api_app(store, api.open_access(), settle=settlers.settle)
    server = server_of(application, host=host, port=port, proxy=proxy)
    note(f"API: http://{host}:{port}/v1; keys: ft key create TENANT" + ("" if ui else "; the work: ft ui"))
    dagster = subprocess.Popen([sys.executable, "-c", _UI]) if ui else None
    try:
        with metrics_page(application.state.figures, store):
            server.run()
    finally:
        settlers.stop()
        if dagster is not None:
            dagster.terminate()
            dagster.wait()
    if not server.started:
        raise typer.Exit(1)


def _in_use(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
