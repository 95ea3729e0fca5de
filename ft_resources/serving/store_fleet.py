"""The servers that there are, with adapters from the store."""

import re
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, suppress

from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, NotFound, UserError
from ft_resources.serving.adapter_folders import AdapterFolders
from ft_resources.serving.configured import ConfiguredServers
from ft_resources.serving.embedded import EmbeddedServers
from ft_resources.serving.errors import BadAdapter, ServerUnavailable
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.servers import Base, ServerState
from ft_resources.serving.vllm_server import VllmServer
from ft_resources.signatures import require_signed, trusted_keys

_AT_ONCE = 4
_LOAD_S = 300.0
_LOOK_S = 5.0
_REMEMBER_S = 3600.0
# As long as an adapter that nobody asks for stays loaded.
_WANTED_S = 600.0
# Signatures that were seen, of adapters served long ago too.
_SIGNED = 10_000
_CONFIG = "adapter_config.json"
_OURS = re.compile(r"[^@/]+\.[^@/]+\.[^@/]+@[0-9a-f]{16}")


class StoreFleet:
    """A Fleet. ``provide`` and ``look`` are called by one thread, all else by any.

    Args:
        configured: servers that others started.
        embedded: those that this process starts, for bases that none of the configured has.
        decided: raises where signatures are demanded and nobody decided that an adapter is served on its base.
    """

    def __init__(
        self,
        artifacts: Artifacts,
        folders: AdapterFolders,
        configured: ConfiguredServers,
        embedded: EmbeddedServers,
        *,
        decided: Callable[[ServedModel], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._artifacts, self._folders = artifacts, folders
        self._configured, self._embedded = configured, embedded
        self._decided = decided
        self._clock = clock
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="load")
        self._lock = threading.Lock()
        self._ready: tuple[Endpoint, ...] = ()
        self._served: dict[Endpoint, frozenset[str]] = {}
        self._clients: dict[Endpoint, HttpServer] = {}
        self._loading: dict[tuple[Endpoint, str], Future[None]] = {}
        self._digests: dict[str, tuple[str, float]] = {}
        self._asked_at: dict[str, float] = {}
        self._signed: dict[ServedModel, None] = {}
        self._wanted: dict[str, tuple[str, float]] = {}
        self._states: Sequence[ServerState] = ()

    def endpoints(self, base: str) -> Sequence[Endpoint]:
        """As ``Fleet.endpoints``."""
        if wanted := self._wanted.get(base):
            self._wanted[base] = wanted[0], self._clock()
        return [each for each in self._ready if each.base == base]

    def want(self, model: ServedModel) -> str:
        """As ``Fleet.want``; servers start with the next ``provide``."""
        if not model.base_address:
            return "its base is not known"
        self._wanted[model.base] = model.base_address, self._clock()
        troubles = [each.trouble for each in self._states if each.base == model.base]
        return troubles[0] if troubles and all(troubles) else ""

    def wanted(self) -> Mapping[str, str]:
        """Addresses of the bases that ``want`` was asked for of late, by digest."""
        since = self._clock() - _WANTED_S
        for digest, (_, at) in list(self._wanted.items()):
            if at < since:
                self._wanted.pop(digest, None)
        return {digest: address for digest, (address, _) in list(self._wanted.items())}

    def serves(self, model: ServedModel, endpoint: Endpoint) -> bool:
        """As ``Fleet.serves``."""
        self._asked_at[model.name] = self._clock()
        return model.name in self._served.get(endpoint, ())

    def forget(self, model: ServedModel, endpoint: Endpoint) -> None:
        """As ``Fleet.forget``."""
        with self._lock:
            self._served[endpoint] = self._served.get(endpoint, frozenset()) - {model.name}

    def load(self, model: ServedModel, endpoint: Endpoint) -> None:
        """As ``Fleet.load``; whoever asks for a model keeps it loaded for a while."""
        if self.serves(model, endpoint):
            return
        try:
            self.begin(model, endpoint).result(_LOAD_S)
        except TimeoutError:
            what = f"{model.name} was not loaded within {_LOAD_S:.0f} s"
            raise ServerUnavailable(what, where=endpoint.name, remedy="Look at the server's log.") from None

    def begin(self, model: ServedModel, endpoint: Endpoint) -> "Future[None]":
        """Load without waiting; one that is under way is the same."""
        with self._lock:
            found = self._loading.get((endpoint, model.name))
            if found is None:
                found = self._loading[endpoint, model.name] = self._pool.submit(self._load, model, endpoint)
            return found

    def loading(self) -> Collection[tuple[Endpoint, str]]:
        """What is being loaded where."""
        with self._lock:
            return list(self._loading)

    def asked_at(self, name: str) -> float | None:
        """When a model was last asked for by ``load``."""
        return self._asked_at.get(name)

    def unload(self, name: str, endpoint: Endpoint) -> None:
        """Serve it no longer; requests in flight finish. Raises ServerUnavailable."""
        with suppress(NotFound):
            self._client(endpoint).unload(name)
        with self._lock:
            self._served[endpoint] = self._served.get(endpoint, frozenset()) - {name}

    def provide(self, bases: Sequence[Base]) -> Sequence[ServerState]:
        """As ``Servers.provide``."""
        elsewhere = [base for base in bases if self._configured.has(base)]
        here = [base for base in bases if base not in elsewhere]
        states = [*self._configured.provide(elsewhere), *self._embedded.provide(here)]
        ready = tuple(each.endpoint for each in states if each.endpoint is not None and each.base)
        with self._lock:
            for gone in self._clients.keys() - set(ready):
                self._clients.pop(gone).close()
                self._served.pop(gone, None)
        self._ready, self._states = ready, states
        return states

    def look(self) -> Mapping[Endpoint, frozenset[str]]:
        """The names of our form that each server says it serves; a server that does not answer is left out."""
        found: dict[Endpoint, frozenset[str]] = {}
        for endpoint in self._ready:
            before = set(self.loading())
            try:
                names = self._client(endpoint).models()
            except UserError:
                continue
            found[endpoint] = frozenset(name for name in names if _OURS.fullmatch(name))
            # What was loaded while the server answered may not be in its answer.
            late = {name for at, name in before - set(self.loading()) if at == endpoint}
            with self._lock:
                self._served[endpoint] = found[endpoint] | (self._served.get(endpoint, frozenset()) & late)
        self._forget_old()
        return found

    def keep(self, digests: Collection[str], *, but_not: Collection[str] = ()) -> bool:
        """Which adapters' copies on disk may not go, beside those of models that are served; ``but_not`` go at once.
        Whether none of these is left: one that a server still has stays."""
        with self._lock:
            served = {self._digests[name][0] for name in self._names() if name in self._digests}
        return self._folders.keep({*digests, *served}, but_not=but_not)

    def close(self) -> None:
        """End what was started."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._configured.close()
        self._embedded.close()
        self._ready = ()
        for client in self._clients.values():
            client.close()

    def _names(self) -> set[str]:
        """What is served or being loaded anywhere; the caller holds the lock."""
        return {name for served in self._served.values() for name in served} | {name for _, name in self._loading}

    def _forget_old(self) -> None:
        """Forget names that nobody asked for in the last hour, and digests of names that no server had in it: one that
        comes back sooner has what it had."""
        now = self._clock()
        for name, asked in list(self._asked_at.items()):
            if asked < now - _REMEMBER_S:
                self._asked_at.pop(name, None)
        with self._lock:
            there = self._names()
            for name, (digest, seen) in list(self._digests.items()):
                if name in there:
                    self._digests[name] = digest, now
                elif seen < now - _REMEMBER_S:
                    del self._digests[name]

    def _load(self, model: ServedModel, endpoint: Endpoint) -> None:
        with self._lock:
            self._digests[model.name] = model.digest, self._clock()
        try:
            self._require_signed(model)
            with closing(VllmServer(endpoint.url, endpoint.key, answer_s=_LOAD_S)) as client:
                if endpoint.fetches:
                    _require_adapter(_CONFIG in self._found(model).manifest.files, model)
                    client.fetch(model.name)
                else:
                    self._hand_over(model, client)
            with self._lock:
                self._served[endpoint] = self._served.get(endpoint, frozenset()) | {model.name}
        finally:
            with self._lock:
                self._loading.pop((endpoint, model.name), None)

    def _hand_over(self, model: ServedModel, client: HttpServer) -> None:
        """Have it loaded from a verified copy on a disk that the server reads."""
        folder = self._folders.folder(model.digest, lambda: self._found(model))
        _require_adapter((folder / _CONFIG).is_file(), model)
        try:
            client.load(model.name, folder)
        except BadAdapter:
            self._folders.doubt(model.digest)
            raise

    def _require_signed(self, model: ServedModel) -> None:
        """Raise Unsigned where signatures are demanded and lacking. A model whose signatures were seen stays signed, so
        a store that is away does not matter to what was served before."""
        if trusted_keys() is None or model in self._signed:
            return
        artifact = self._found(model)
        require_signed(self._artifacts.store, artifact)
        if artifact.digest != model.digest:
            raise CorruptArtifact(f"its content is not {model.digest[:16]}, which was promoted", where=model.address)
        self._decided(model)
        self._signed[model] = None
        if len(self._signed) > _SIGNED:
            del self._signed[next(iter(self._signed))]

    def _found(self, model: ServedModel) -> Artifact:
        artifact = self._artifacts.find(Address.parse(model.address))
        if artifact is None:
            raise NotFound("there is no such adapter", where=model.address, remedy="See what there is: ft adapter list")
        return artifact

    def _client(self, endpoint: Endpoint) -> HttpServer:
        with self._lock:
            if endpoint not in self._clients:
                self._clients[endpoint] = HttpServer(endpoint.url, endpoint.key, answer_s=_LOOK_S, connect_s=_LOOK_S)
            return self._clients[endpoint]


def _require_adapter(is_adapter: bool, model: ServedModel) -> None:
    if not is_adapter:
        raise BadAdapter(
            "it is a complete model, and servers load adapters only",
            where=model.address,
            remedy="Serve it as a base of its own: ft adapter download takes it home.",
        )
