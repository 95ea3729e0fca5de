"""Servers that are started outside the platform, such as vLLM on a cluster, as settings list them."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ft_resources.errors import UserError
from ft_resources.serving.fleet import Endpoint
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.servers import Base, ConfiguredServer, ServerState

_ANSWER_S = 5.0
_AT_ONCE = 8


class ConfiguredServers:
    """Checks whether they answer, and how they name their base."""

    def __init__(self, servers: Sequence[ConfiguredServer]) -> None:
        self._servers = tuple(servers)
        self._clients = {
            each.name: HttpServer(each.url, each.key, answer_s=_ANSWER_S, connect_s=_ANSWER_S) for each in servers
        }
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="configured")

    def has(self, base: Base) -> bool:
        """Whether a server was started with this base, answering or not."""
        return any(each.base == base.source for each in self._servers)

    def provide(self, bases: Sequence[Base]) -> Sequence[ServerState]:
        """As ``Servers.provide``; nothing is started."""
        digests = {base.source: base.digest for base in bases if base.source}
        return list(self._pool.map(lambda server: self._state(server, digests.get(server.base, "")), self._servers))

    def close(self) -> None:
        """As ``Servers.close``; nothing is ended."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        for client in self._clients.values():
            client.close()

    def _state(self, server: ConfiguredServer, base: str) -> ServerState:
        try:
            model = self._clients[server.name].models()[0]
        except (UserError, IndexError) as error:
            why = error.what if isinstance(error, UserError) else "it says that it has no model"
            return ServerState(name=server.name, base=base, trouble=why)
        endpoint = Endpoint(
            name=server.name, base=base, model=model, url=server.url, key=server.key, fetches=server.fetches
        )
        return ServerState(name=server.name, base=base, endpoint=endpoint)
