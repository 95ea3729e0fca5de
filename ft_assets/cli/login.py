"""``ft login``, ``ft logout`` and ``ft whoami``: which server the commands are carried out at, and as whom."""

import getpass
import os
import sys
from typing import Annotated

import typer

from ft_assets.cli.door import connect
from ft_assets.remote import login as logins
from ft_assets.remote.login import Login
from ft_assets.settings.environment import actor, prepare_environment
from ft_resources.environment import default_store_url
from ft_resources.errors import UserError


def login(
    server: Annotated[
        str, typer.Argument(metavar="URL", help="Address of the server, such as https://ft.example.com.")
    ],
    key_from_env: Annotated[
        str,
        typer.Option(help="Name of an environment variable with the key. Without it: asked for, or read from stdin."),
    ] = "",
) -> None:
    """Carry out all commands at a server, with an API key of it and no store of one's own."""
    from ft_assets.cli.output import note

    server = logins.check_server(server, where="URL")
    key = _key(key_from_env)
    # Proved before anything is kept.
    found = connect(Login(server=server, key=key, source="ft login")).me
    path = logins.keep(server, key)
    print(_said(server, found))
    note(f"kept in {path}, readable by you alone; to remove it: ft logout")
    if os.environ.get("FT_STORE"):
        note("FT_STORE is set in this shell, and commands use that store until it is unset")


def logout() -> None:
    """Forget the server and its key: commands go to the store again. The key stays valid: ft key revoke ends it."""
    print("forgotten" if logins.forget() else "nothing was kept")


def whoami() -> None:
    """Say where commands are carried out, and as whom."""
    from ft_assets.cli.output import note

    found = logins.find_login()
    if found is None:
        prepare_environment()
        print(f"{actor()}, beside the store {default_store_url()}")
        return
    print(_said(found.server, connect(found).me))
    note(f"as {found.source} says")


def _said(server: str, found: dict[str, str]) -> str:
    return f"{found['actor']}: {found['role']} of {found['tenant'] or 'the platform'} at {server}"


def _key(variable: str) -> str:
    """The key. It is no argument, as every user of a machine sees those of all processes."""
    if variable:
        where, key = variable, os.environ.get(variable, "")
    elif sys.stdin.isatty():
        where, key = "the key", getpass.getpass("API key (not shown): ")
    else:
        where, key = "stdin", sys.stdin.readline()
    key = key.strip()
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise UserError(
            "there is no API key", where=where, remedy="Give a key of the tenant: an administrator's ft key create."
        )
    return key
