"""``ft audit``: who asked for what over HTTP."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from ft_assets.cli.door import api


def audit(
    tenant: Annotated[str, typer.Argument(help="Name of the tenant. Default: requests without a valid key.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line, with digests.")] = False,
) -> None:
    """Show HTTP requests with their actor and result. Fails if the audit log was altered."""
    from ft_assets.cli.output import print_table

    entries = api.audit(tenant)
    if as_json:
        for entry in entries:
            print(json.dumps(asdict(entry), sort_keys=True))
        return
    rows = [
        (
            datetime.fromtimestamp(entry.at, UTC).isoformat(timespec="seconds"),
            entry.actor,
            entry.peer,
            f"{entry.method} {entry.path}",
            str(entry.status),
        )
        for entry in entries
    ]
    print_table(("at", "who", "from", "what", "answer"), rows, empty="no requests yet")
