"""Makes servers follow the lines: one look at a time."""

import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from ft_assets.control.serving.plan import plan
from ft_assets.control.serving.shown import Seen, Since, shown
from ft_assets.control.serving.standing import Lines, Standing
from ft_assets.control.serving.status import ServingStatus
from ft_assets.control.serving.wanted import bases_of
from ft_assets.settings.base_sources import source_of
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.run_processes import process_tag
from ft_resources.serving.fleet import Endpoint, ServedModel
from ft_resources.serving.servers import Base, ServerState

_LOG = logging.getLogger(__name__)
GRACE_S = 600.0
"""Seconds that an unwanted, unused adapter stays loaded."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 60.0


class FollowingFleet(Protocol):
    """What is asked of the servers: see ``StoreFleet``."""

    def wanted(self) -> Mapping[str, str]: ...
    def provide(self, bases: Sequence[Base]) -> Sequence[ServerState]: ...
    def look(self) -> Mapping[Endpoint, Collection[str]]: ...
    def begin(self, model: ServedModel, endpoint: Endpoint) -> "Future[None]": ...
    def unload(self, name: str, endpoint: Endpoint) -> None: ...
    def asked_at(self, name: str) -> float | None: ...
    def keep(self, digests: Collection[str], *, but_not: Collection[str] = ()) -> bool: ...


@dataclass(kw_only=True)
class _Try:
    """Loading one adapter on one server."""

    loading: "Future[None]"
    failures: int = 0
    next_at: float = 0.0
    trouble: str = ""


class Reconciler:
    """Remembers since when each state has lasted. ``look`` is called every second or two, by one thread."""

    def __init__(
        self,
        artifacts: Artifacts,
        fleet: FollowingFleet,
        *,
        grace_s: float = GRACE_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._artifacts, self._fleet = artifacts, fleet
        self._grace_s, self._clock = grace_s, clock
        self._lines = Lines(artifacts.store)
        self._sources: dict[str, str] = {}
        self._bases: list[str] = []
        self._tries: dict[tuple[Endpoint, str], _Try] = {}
        self._used: dict[str, float] = {}
        self._since = Since(clock)
        self._kept: tuple[frozenset[str], frozenset[str]] | None = None

    def look(self) -> ServingStatus:
        """Compare the wanted adapters with the servers', and begin to make them equal. Failures of the store or of
        servers are not raised but part of the result."""
        standing = self._lines.read()
        # What stands in stages comes first, and then the bases that somebody asked for without a server.
        found = {base.digest: base.address for base in bases_of(standing.wanted, self._bases)}
        for digest, address in self._fleet.wanted().items():
            found.setdefault(digest, address)
        bases = [
            Base(address=address, digest=digest, source=self._source(address)) for digest, address in found.items()
        ]
        states = self._fleet.provide(bases)
        self._bases = [each.base for each in states if each.endpoint is not None]
        served = self._fleet.look()
        names = {each.model.name for each in standing.wanted}
        todo = plan(
            standing.wanted,
            {each.name for each in standing.banned} - names,
            served,
            self._idle(names, served),
            self._grace_s,
        )
        for model, endpoint in todo.load:
            self._load(model, endpoint)
        for name, endpoint in todo.unload:
            self._unload(name, endpoint)
        self._forget(served)
        self._keep(standing)
        seen = Seen(
            standing=standing,
            states=states,
            served=served,
            unloading=frozenset(name for name, _ in todo.unload),
            troubles={(endpoint.name, name): each.trouble for (endpoint, name), each in self._tries.items()},
        )
        return shown(seen, self._since, at=datetime.now(UTC).isoformat(timespec="seconds"), process=process_tag())

    def _load(self, model: ServedModel, endpoint: Endpoint) -> None:
        now, key = self._clock(), (endpoint, model.name)
        known = self._tries.get(key)
        if known is None:
            self._tries[key] = _Try(loading=self._fleet.begin(model, endpoint))
            return
        if not known.loading.done():
            return
        if known.next_at == 0.0:
            error = known.loading.exception()
            if error is not None:
                known.trouble = error.what if isinstance(error, UserError) else str(error) or type(error).__name__
                _LOG.warning("%s on %s: %s", model.name, endpoint.name, known.trouble)
            known.next_at = now + min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**known.failures)
            known.failures += 1
        elif now >= known.next_at:
            known.loading, known.next_at = self._fleet.begin(model, endpoint), 0.0

    def _unload(self, name: str, endpoint: Endpoint) -> None:
        try:
            self._fleet.unload(name, endpoint)
        except UserError as error:
            _LOG.warning("%s stays on %s: %s", name, endpoint.name, error.what)

    def _forget(self, served: Mapping[Endpoint, Collection[str]]) -> None:
        """Forget tries that succeeded, and those at servers that are gone."""
        for endpoint, name in list(self._tries):
            if name in served.get(endpoint, ()) or endpoint not in served:
                del self._tries[endpoint, name]

    def _idle(self, wanted: Collection[str], served: Mapping[Endpoint, Collection[str]]) -> dict[str, float]:
        """Seconds since each served adapter was last wanted or asked for, or first seen."""
        now = self._clock()
        there = {name for names in served.values() for name in names}
        self._used = {name: self._used.get(name, now) for name in there | {*wanted}}
        for name in self._used:
            asked = self._fleet.asked_at(name)
            self._used[name] = now if name in wanted else max(self._used[name], asked or self._used[name])
        return {name: now - used for name, used in self._used.items()}

    def _keep(self, standing: Standing) -> None:
        """Have copies of what is not wanted make room, when what is wanted changed; and as long as one is left of what
        was deleted, such as that of a server which does not answer."""
        wanted = frozenset(each.model.digest for each in standing.wanted)
        banned = frozenset(each.digest for each in standing.banned) - wanted
        if (wanted, banned) != self._kept:
            self._kept = (wanted, banned) if self._fleet.keep(wanted, but_not=banned) else None

    def _source(self, address: str) -> str:
        """The name of a base in server configurations; empty if the store does not answer now."""
        if address not in self._sources:
            try:
                manifest = self._artifacts.get(Address.parse(address)).manifest
            except StoreUnavailable:
                return ""
            except UserError as error:
                _LOG.warning("%s: %s", address, error.what)
                return ""
            self._sources[address] = source_of(manifest.identity["params"])
        return self._sources[address]
