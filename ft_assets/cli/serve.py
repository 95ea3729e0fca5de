"""``ft serve``: the HTTP API and its model servers; ``ft serve status``: what they serve; ``ft serve parity``: whether
that is what was evaluated."""

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api, require_store
from ft_assets.cli.ports import free_port, in_use, only_dagster
from ft_assets.server.following import Following
from ft_assets.settings.environment import open_store
from ft_resources.errors import UserError

if TYPE_CHECKING:
    from ft_assets.api import ParityRecord
    from ft_assets.server.serving import Server

_UI = "import sys; from ft_assets.cli.main import app; sys.argv = ['ft', 'ui', *sys.argv[1:]]; app()"
_DEMO = Path(__file__).resolve().parents[1] / "demo" / "models.yaml"
PORT = 8000
EMBEDDED = 2
"""Bases that are served on this machine where nothing else is said: each takes the memory of a model."""
app = typer.Typer()


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    host: Annotated[
        str, typer.Option(help="Address to listen on. Use a proxy with TLS for access from other machines.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", min=0, max=65535, help=f"Port of the API. Default: {PORT}, or another if it is taken."
        ),
    ] = None,
    proxy: Annotated[
        str,
        typer.Option(
            help="Trusted proxies for X-Forwarded-For and X-Forwarded-Proto: addresses or networks, separated by "
            "commas."
        ),
    ] = "",
    embedded: Annotated[
        int,
        typer.Option(min=0, help="Maximum number of bases with a model server on this machine."),
    ] = EMBEDDED,
    ui: Annotated[bool, typer.Option("--ui", help="Also start Dagster and the report pages, like ft ui.")] = False,
    ui_port: Annotated[
        int,
        typer.Option(
            "--ui-port", min=0, max=65535, help="With --ui: port of the Dagster UI; another one if it is in use."
        ),
    ] = 3000,
) -> None:
    """Serve OpenAI's fine-tuning API on this store. API keys: ft key create TENANT. A running Dagster (ft ui, or the
    daemon of a cluster) does the work. Also serves the adapters in production and staging.
    """
    if context.invoked_subcommand is not None:
        return
    from ft_assets.cli.output import note, print_error
    from ft_assets.server.app import api_app
    from ft_assets.server.metrics.page import metrics_page
    from ft_assets.server.serving import server_of
    from ft_assets.server.settling import AT_ONCE
    from ft_assets.server.settling_apart import SettlingApart

    require_store("ft serve")
    if ui:
        with only_dagster("Leave --ui out: the running Dagster does the work."):
            pass
    if port is not None and in_use(port):
        print_error(
            UserError(f"port {port} is in use", where="--port", remedy="Choose another, or end what listens there.")
        )
        raise typer.Exit(1)
    if port is None and in_use(PORT):
        port = free_port()
        note(f"port {PORT} is in use: the API is at port {port}")
    port = port or PORT
    _offer_models()
    store = open_store(create=True)
    fleet = api.open_fleet(embedded=embedded, store=store)
    following = None
    if fleet is not None:
        following = Following(api.follow_lines(fleet, store=store), api.watch_drift(store=store))
    settlers = SettlingApart(store, AT_ONCE)
    application = api_app(store, api.open_access(), settle=settlers.settle, fleet=fleet)
    where = f"API: http://{host}:{port}/v1; keys: ft key create TENANT" + ("" if ui else "; the work: ft ui")
    server = server_of(application, host=host, port=port, proxy=proxy, answers=lambda: note(where))
    dagster = subprocess.Popen([sys.executable, "-c", _UI, "-p", str(ui_port)]) if ui else None
    if dagster is not None:
        # Jobs that nothing carries out would be accepted.
        threading.Thread(target=_end_with, args=(dagster, server), name="dagster", daemon=True).start()
    try:
        if following is not None:
            following.start()
        with metrics_page(application.state.figures, store):
            server.run()
    finally:
        settlers.stop()
        if following is not None and fleet is not None:
            following.stop()
            fleet.close()
        failed = dagster is not None and dagster.poll() not in (None, 0)
        if dagster is not None:
            dagster.terminate()
            dagster.wait()
    if failed:
        note("Dagster has ended, and the API with it")
    if failed or not server.started:
        raise typer.Exit(1)


def _end_with(dagster: "subprocess.Popen[bytes]", server: "Server") -> None:
    dagster.wait()
    server.should_exit = True


def _offer_models() -> None:
    """Read the models that jobs may name; the demo's where the project has none. Raises UserError for a wrong file."""
    from ft_assets.cli.output import note
    from ft_assets.settings.models import load_models, models_path

    if "FT_MODELS" not in os.environ and not models_path().exists():
        # The processes that settle jobs read it too.
        os.environ["FT_MODELS"] = str(_DEMO)
        note(f"jobs may name the demo's model, as there is no {models_path().name}: {', '.join(load_models().models)}")
    load_models()


@app.command("status")
def status(
    tenant: Annotated[str, typer.Option(help="Only this tenant.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the adapters in production and staging, the servers that serve them, and problems."""
    from dataclasses import asdict

    from ft_assets.cli.output import note, print_json, print_table, warn

    found = api.serving_status(tenant=tenant)
    if as_json:
        print_json(asdict(found))
        return
    if not found.at:
        note("ft serve is not running on this machine")
        return
    print_table(
        ("line", "stage", "adapter", "base", "served by", ""),
        [
            (each.line, each.stage, short(each.adapter), each.base[:12], ", ".join(each.servers) or "–", each.trouble)
            for each in found.lines
        ],
        empty="No adapter is in production or staging: ft promote LINE --to staging --reason …",
    )
    if found.servers:
        print()
    print_table(
        ("server", "base", "state", "adapters", ""),
        [(each.name, each.base[:12] or "–", each.state, str(len(each.models)), each.trouble) for each in found.servers],
        empty="No model server is needed.",
    )
    note(f"looked at {found.at}")
    warn(filter(None, (found.trouble, *(f"drift: {each}" for each in found.drift))))


@app.command("parity")
def parity(
    model: Annotated[
        str, typer.Argument(help="LINE (production), LINE@staging, LINE@DIGEST, or address of an adapter.")
    ],
    prompts: Annotated[
        int, typer.Option(min=1, help="Maximum number of prompts, taken alternately from the holdout and the suites.")
    ] = 50,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check that the servers of an adapter's base reproduce the evaluated answers with their current settings. The
    proofs are recorded; production may require them. Exit code: 0 if all servers are proved, 3 if not.
    """
    from ft_assets.cli.output import note, print_json, print_table

    records = api.check_servers(model, prompts=prompts)
    if as_json:
        print_json([record.model_dump(mode="json") for record in records])
    else:
        print_table(
            ("server", "settings", "verdict", "prompts", "same tokens", "KL", "99 of 100", "largest"),
            [_checked(record) for record in records],
            empty="",
        )
        for record in records:
            for reason in record.report.reasons:
                note(f"{record.server}: {reason}")
            for key, found in record.report.suites.items():
                note(f"{record.server}: suite {key}: {found.sentence}")
            note(f"record: {record.path}")
    raise typer.Exit(0 if all(record.report.proved for record in records) else 3)


def _checked(record: "ParityRecord") -> tuple[str, ...]:
    report = record.report
    figures = report.figures
    shown = (
        (f"{figures.prompts}", f"{figures.argmax:.4f}", f"{figures.kl:.2g}", f"{figures.p99:.2g}", f"{figures.max:.2g}")
        if figures is not None
        else ("–",) * 5
    )
    return record.server, report.settings.sentence, report.outcome, *shown
