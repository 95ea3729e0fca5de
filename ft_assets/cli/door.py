"""Where commands are carried out: by the API in this process, or at the server of ``ft login``.

Every command calls ``api`` of this file, and does not know which of them it is.
"""

from typing import TYPE_CHECKING, Any

from ft_assets import api as here
from ft_assets.remote.login import beside_the_store, find_login
from ft_assets.settings.environment import actor as user
from ft_assets.settings.environment import prepare_environment

if TYPE_CHECKING:
    from ft_assets import api as api
    from ft_assets.remote.client import Remote
    from ft_assets.remote.login import Login
    from ft_resources.artifacts import Artifact


class _Door:
    """What ``ft_assets.api`` has, here or at the other end."""

    remote: "Remote | None" = None

    def __getattr__(self, name: str) -> Any:
        return getattr(here if self.remote is None else self.remote, name)


_door = _Door()
if not TYPE_CHECKING:
    api = _door


def open_door() -> None:
    """Choose, before a command runs. Raises UserError where nothing can be asked of either."""
    login = find_login()
    _door.remote = connect(login) if login else None
    if login is None:
        prepare_environment()


def close_door() -> None:
    """Where one process carries out several commands, none of them is sent where the one before it was."""
    _door.remote = None


def connect(login: "Login") -> "Remote":
    """The API at the login's server."""
    from ft_assets.remote.client import Remote
    from ft_assets.remote.connection import Connection

    return Remote(Connection(login))


def actor() -> str:
    """Who asks, as records will name them."""
    return _door.remote.me["actor"] if _door.remote else user()


def waits_for() -> str:
    """What the work of a submission waits for that no command carries out."""
    if _door.remote:
        return "queued: a running Dagster of the server starts the work"
    return "queued: a running Dagster starts the work: ft ui"


def page_of(artifact: "Artifact", name: str) -> str:
    """Where people open the page ``name`` of an artifact."""
    if _door.remote:
        return _door.remote.page_of(artifact, name)
    location = artifact.location(name)
    return str(artifact.store.local_path(location) or artifact.store.url_of(location))


def require_store(command: str) -> None:
    """Raise UserError for ``command``, which works on the store itself, where commands go to a server."""
    login = find_login()
    if login is not None:
        raise beside_the_store(command, login.server, login.source)
