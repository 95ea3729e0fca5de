"""Where commands are sent: the server and the key of ``ft login``, kept in the user's own folder, or of the
environment."""

import ipaddress
import json
import os
import stat
import uuid
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from ft_resources.errors import UserError

SERVER, KEY = "FT_SERVER", "FT_API_KEY"


@dataclass(frozen=True, kw_only=True)
class Login:
    """A server's address, without ``/v1``, and an API key of it. ``source`` says where they come from."""

    server: str
    key: str = field(repr=False)
    source: str


def find_login() -> Login | None:
    """Whom commands are sent to: the server of ``FT_SERVER``; else that of ``ft login``, unless ``FT_STORE`` names a
    store of one's own; else None.

    Raises UserError for a server without a key, and for a file that others can read.
    """
    server = os.environ.get(SERVER, "")
    if not server and os.environ.get("FT_STORE"):
        return None
    kept = _read()
    if not server:
        return kept
    server = check_server(server, where=SERVER)
    key = os.environ.get(KEY, "") or (kept.key if kept and kept.server == server else "")
    if not key:
        raise UserError(
            f"{SERVER} is set, and there is no key for it", where=SERVER, remedy=f"Set {KEY}, or: ft login {server}"
        )
    return Login(server=server, key=key, source=SERVER)


def check_server(text: str, *, where: str) -> str:
    """The server's address in ``text``. Raises UserError for text that is not an address, and for an address on
    another machine without TLS: the key could be read on its way."""
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment or "@" in text:
        raise UserError(
            f"{text!r} is not the address of a server", where=where, remedy="Write it as https://ft.example.com."
        )
    if parts.scheme == "http" and not _is_here(parts.hostname):
        raise UserError(f"{text!r} has no TLS, which would expose the key", where=where, remedy="Use https://.")
    return text.rstrip("/").removesuffix("/v1").rstrip("/")


def keep(server: str, key: str) -> Path:
    """Write the file of ``ft login``, which only its user can read; its path. Raises UserError where it cannot be."""
    path = login_path()
    made = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(made, "x", encoding="utf-8", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            json.dump({"server": server, "key": key}, file)
        made.replace(path)
    except OSError as error:
        with suppress(OSError):
            made.unlink()
        raise UserError(
            f"the file cannot be written ({error.strerror})",
            where=str(path),
            remedy="Point XDG_CONFIG_HOME to a folder that you may write to.",
        ) from error
    return path


def forget() -> bool:
    """Remove the file; whether there was one."""
    try:
        login_path().unlink()
    except FileNotFoundError:
        return False
    return True


def beside_the_store(what: str, server: str, where: str) -> UserError:
    """The error for ``what``, which works on the store of all tenants, while commands go to ``server``."""
    return UserError(
        f"{what} works beside the store only, and commands go to {server}",
        where=where,
        remedy="Call it where FT_STORE is set, or after: ft logout",
    )


def login_path() -> Path:
    """``ft/login.json`` of the user's configuration: ``XDG_CONFIG_HOME``, else ``~/.config``."""
    home = os.environ.get("XDG_CONFIG_HOME", "")
    return Path(home or Path.home() / ".config") / "ft" / "login.json"


def _read() -> Login | None:
    path = login_path()
    try:
        mode, text = path.stat().st_mode, path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UserError(f"the file cannot be read ({error.strerror})", where=str(path), remedy="Mend it.") from error
    if stat.S_IMODE(mode) & 0o077:
        raise UserError(
            "this file contains an API key and is readable by others",
            where=str(path),
            remedy=f"chmod 600 {path}; or: ft logout",
        )
    try:
        value = json.loads(text)
        return Login(server=str(value["server"]), key=str(value["key"]), source=str(path))
    except (ValueError, KeyError, TypeError) as error:
        raise UserError("this is not a file of ft login", where=str(path), remedy="ft logout; ft login URL") from error


def _is_here(host: str) -> bool:
    """Whether ``host`` is this machine itself."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"
