"""Serving: the model servers, the reconciler that makes them follow the lines, and their status."""

import os
from functools import partial
from pathlib import Path

from ft_assets.api.defaults import store_or_default
from ft_assets.control.notices.serving_drift import DriftWatch as DriftWatch
from ft_assets.control.serving.decided import require_decided
from ft_assets.control.serving.reconciler import Reconciler as Reconciler
from ft_assets.control.serving.status import LineServed as LineServed
from ft_assets.control.serving.status import ServerShown as ServerShown
from ft_assets.control.serving.status import ServingStatus as ServingStatus
from ft_assets.control.serving.status import read_status, status_file, write_status
from ft_assets.settings.servers import ServersFile, load_servers
from ft_resources.artifacts import Artifacts
from ft_resources.environment import whole_number
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.serving.configured import ConfiguredServers
from ft_resources.serving.embedded import EmbeddedServers
from ft_resources.serving.store_fleet import StoreFleet
from ft_resources.store import Store

_CACHE_MB = 65_536


def open_fleet(
    *, embedded: int, servers: ServersFile | None = None, logs: Path | None = None, store: Store | None = None
) -> StoreFleet | None:
    """The model servers; None if there can be none. Servers are started only once lines are followed.

    Args:
        embedded: most bases for which a server is started on this machine.
        servers: those that others started; what ``load_servers`` reads where None.
        logs: folder for the logs of servers that are started; that of the status where None.

    Raises UserError for a servers file that cannot be used.
    """
    store, servers = store_or_default(store), load_servers() if servers is None else servers
    if not embedded and not servers.servers:
        return None
    folder = Path(servers.adapters or Path(os.environ.get("FT_CACHE", ".ft/cache")) / "adapters")
    return StoreFleet(
        Artifacts(store),
        AdapterFolders(folder, whole_number("FT_CACHE_MB", _CACHE_MB, at_least=1) << 20),
        ConfiguredServers(servers.configured()),
        EmbeddedServers(store, logs or status_file().parent, most=embedded),
        decided=partial(require_decided, store),
    )


def follow_lines(fleet: StoreFleet, *, store: Store | None = None) -> Reconciler:
    """Makes the servers load the adapters in production and staging: call its ``look`` every second or two."""
    return Reconciler(Artifacts(store_or_default(store)), fleet)


def watch_drift(*, store: Store | None = None) -> DriftWatch:
    """Records drift and its end, for notices: call its ``look`` with each status."""
    return DriftWatch(store_or_default(store))


def keep_status(status: ServingStatus) -> None:
    """Keep it for ``serving_status`` in every process of this machine. Raises OSError."""
    write_status(status, status_file())


def serving_status(*, tenant: str = "", store: Store | None = None) -> ServingStatus:
    """What is served where, of one tenant or of all, as the ``ft serve`` of this machine saw it a moment ago; empty
    where none runs."""
    found = read_status(status_file())
    return found.of_tenant(tenant) if tenant else found
