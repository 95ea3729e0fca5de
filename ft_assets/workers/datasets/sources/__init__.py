"""Sources of rows, one module each, opened by ``opened``. Each says what is there, and fetches it as files to add."""

from collections.abc import Mapping

from ft_assets.settings.connections import Connection, FilesConnection, SqlConnection
from ft_assets.settings.dataset.source import Source
from ft_assets.workers.datasets.sources.files import Files
from ft_assets.workers.datasets.sources.hub import HubRevision
from ft_assets.workers.datasets.sources.place import Place
from ft_assets.workers.datasets.sources.sql import Query
from ft_resources.errors import UserError
from ft_resources.strict import nearest


def opened(source: Source, connections: Mapping[str, Connection], store_url: str) -> Place:
    """The place that ``source`` names, over a tenant's ``connections``. Nothing is read yet.

    Raises UserError for a connection that the tenant does not have, that is of another kind, or leads into the store.
    """
    if source.files is not None:
        found = _connection(source.files.connection, connections)
        if isinstance(found, FilesConnection):
            return Files(found, source.files.path, store_url)
        raise _other_kind(source.files.connection, "files")
    if source.sql is not None:
        found = _connection(source.sql.connection, connections)
        if isinstance(found, SqlConnection):
            return Query(found, source.sql.query, source.sql.watermark)
        raise _other_kind(source.sql.connection, "sql")
    return HubRevision(f"hub:{source.hub}")


def _connection(name: str, connections: Mapping[str, Connection]) -> Connection:
    if name in connections:
        return connections[name]
    raise UserError(
        f"there is no connection {name!r}; {nearest(name, sorted(connections))}",
        where="source.connection",
        remedy="Ask the platform's administrator to list it in tenants.yaml, under this tenant's `connections`.",
    )


def _other_kind(name: str, kind: str) -> UserError:
    return UserError(
        f"the connection {name!r} is not of kind {kind}",
        where=f"source.{kind}.connection",
        remedy=f"Name a connection of kind {kind}, or use the other kind of source.",
    )
