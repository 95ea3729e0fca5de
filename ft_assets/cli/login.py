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
    server: Annotated[str, typer.Argument(metavar="URL", help="URL of the server, such as https://ft.example.com.")],
    key_from_env: Annotated[
        str,
        typer.Option(help="Environment variable with the API key. Default: prompt for the key, or read it from stdin."),
    ] = "",
) -> None:
    """Log in to a server. All commands then run there, without a local store."""
    from ft_assets.cli.output import note

    server = logins.check_server(server, where="URL")
    key = _key(key_from_env)
    # Proved before anything is kept.
    found = connect(Login(server=server, key=key, source="ft login")).me
    path = logins.keep(server, key)
    print(_said(server, found))
    note(f"saved in {path}, readable only by you; to remove it: ft logout")
    if os.environ.get("FT_STORE"):
        note("FT_STORE is set in this shell: commands use that store until it is unset")


def logout() -> None:
    """Log out: commands use the local store again. The API key stays valid until ft key revoke."""
    print("forgotten" if logins.forget() else "no login was saved")


def whoami() -> None:
    """Show the server or store in use, and your identity."""
    from ft_assets.cli.output import note

    found = logins.find_login()
    if found is None:
        prepare_environment()
        print(f"{actor()}, on the store {default_store_url()}")
        return
    print(_said(found.server, connect(found).me))
    note(f"according to {found.source}")


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
            "no API key was given",
            where=where,
            remedy="Use an API key of the tenant; an administrator creates one with ft key create.",
        )
    return key
