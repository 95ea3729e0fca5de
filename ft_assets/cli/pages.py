"""``ft pages``: Dagster's pages on a cluster, behind the door that they have on a laptop."""

import os
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from ft_assets.cli.ports import free_port
from ft_assets.cli.terminal import relayed
from ft_resources.errors import UserError

TOKEN = "FT_PAGES_TOKEN"
_SHORTEST = 24


def pages(
    workspace: Annotated[
        Path, typer.Option("--workspace", "-w", help="Dagster workspace file with the code locations.")
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", "-p", min=0, max=65535, help="Port to listen on.")] = 3000,
    origin: Annotated[
        list[str] | None,
        typer.Option(help="URL for browsers besides localhost, such as https://dagster.example.com."),
    ] = None,
) -> None:
    """Serve the Dagster UI of the instance in DAGSTER_HOME, protected by the token in FT_PAGES_TOKEN and against
    other pages in the same browser. Dagster's own server listens on localhost only. On a laptop, use ft ui.
    """
    from ft_assets.cli.output import note
    from ft_assets.server.dagster_proxy import dagster_proxy, new_prefix
    from ft_assets.server.serving import server_of

    token, origins = _token(), [_checked(each) for each in origin or []]
    hidden, prefix = free_port(), new_prefix()
    environment = {name: value for name, value in os.environ.items() if name != TOKEN}
    # At its usual level its log would tell the path.
    listen = ["-h", "127.0.0.1", "-p", str(hidden), "--dagster-log-level", "warning"]
    dagster, output = relayed(
        [sys.executable, "-m", "dagster_webserver", *listen, "-w", str(workspace)],
        {**environment, "DAGSTER_WEBSERVER_PATH_PREFIX": prefix},
    )
    proxy = dagster_proxy(f"http://127.0.0.1:{hidden}", prefix, token, origins)
    # Pages listen for as long as they are open.
    answers = partial(note, f"Dagster's pages: port {port}, at /?token=…")
    server = server_of(proxy, host=host, port=port, drain_s=5, answers=answers)
    ended = threading.Event()

    def end_with_dagster() -> None:
        dagster.wait()
        ended.set()
        server.should_exit = True

    threading.Thread(target=end_with_dagster, name="dagster", daemon=True).start()
    try:
        server.run()
        alone = ended.is_set()
    finally:
        dagster.terminate()
        dagster.wait()
        output.join(timeout=1.0)
    # Whoever started it, such as a kubelet, starts it anew.
    raise typer.Exit(1 if alone or not server.started else 0)


def _token() -> str:
    token = os.environ.get(TOKEN, "")
    if len(token) < _SHORTEST:
        raise UserError(
            f"the token has {len(token)} characters; at least {_SHORTEST} are required",
            where=TOKEN,
            remedy="Set it to random text: openssl rand -hex 32",
        )
    return token


def _checked(origin: str) -> str:
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or origin != f"{parts.scheme}://{parts.netloc}" or "@" in parts.netloc:
        raise UserError(
            f"{origin!r} is not an origin",
            where="--origin",
            remedy="Write the scheme, the host and, unless it is 443, the port: https://dagster.example.com",
        )
    return origin
