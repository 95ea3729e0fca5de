"""Parity of the existing servers: those to which ``ft serve`` gives an adapter, with their present settings."""

import tempfile
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from ft_assets.api.adapters import find_adapter
from ft_assets.api.defaults import Orchestrator, orchestrator_or_default, store_or_default
from ft_assets.api.own_keys import own_line
from ft_assets.api.parity import check_parity
from ft_assets.api.serving import open_fleet
from ft_assets.control.parity.records import ParityRecord
from ft_assets.control.parity.servers import EMBEDDED, settings_by_server, source_of
from ft_assets.control.serving import names
from ft_assets.settings.servers import ServersFile, load_servers
from ft_assets.workers.serving.parity.asked_prompts import PROMPTS
from ft_assets.workers.serving.parity.settings import ServerSettings
from ft_assets.workers.serving.prompts import PromptCache
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import Misconfigured
from ft_resources.serving.errors import NoServer
from ft_resources.serving.fleet import Endpoint
from ft_resources.serving.http_server import HttpServer
from ft_resources.serving.servers import Base
from ft_resources.serving.store_fleet import StoreFleet
from ft_resources.store import Store

_LOOK_EVERY_S = 0.5
# Loading a large base from a slow disk takes minutes.
_START_S = 900.0


def check_servers(
    source: str,
    *,
    prompts: int = PROMPTS,
    store: Store | None = None,
    servers: ServersFile | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
) -> list[ParityRecord]:
    """Check each server of an adapter's base with the settings that it has; prompts are written as the router writes
    them, and the records stay.

    For a base that ``servers.yaml`` does not name it is the embedded server, which is started for that.

    Args:
        source: ``LINE`` (what is in production), ``LINE@staging``, ``LINE@DIGEST``, or an adapter's address.
        prompts: as ``check_parity`` takes it.
        servers: those that others started; what ``load_servers`` reads where None.

    Raises:
        NotFound: where there is no such adapter.
        UserError: for a whole model, and as ``check_parity``.
        Misconfigured: where ``servers.yaml`` does not say how a server computes, or it is another engine.
        NoServer: where one does not answer. Records of those before it stay.
    """
    store = store_or_default(store)
    artifacts = Artifacts(store)
    adapter = _find(artifacts, source)
    names.served(adapter)
    known = load_servers() if servers is None else servers
    base = artifacts.get(Address.parse(adapter.manifest.inputs["base"].address))
    settings = _all_said(settings_by_server(base, known))
    router = PromptCache().of(adapter)
    with tempfile.TemporaryDirectory(prefix="ft-servers-") as logs:
        fleet = open_fleet(embedded=1, servers=_of(base, known), logs=Path(logs), store=store)
        assert fleet is not None
        with closing(fleet):
            records = []
            for endpoint in _answering(fleet, base, expected=len(settings)):
                own = settings.get(endpoint.name) or settings[EMBEDDED]
                _require_engine(endpoint, own)
                records.append(
                    check_parity(
                        str(adapter.address),
                        fleet,
                        endpoint,
                        own,
                        render=lambda messages: router.chat([dict(turn) for turn in messages]),
                        prompts=prompts,
                        store=store,
                        actor=actor,
                    )
                )
    orchestrator_or_default(orchestrator).show_parity(artifacts, adapter)
    return records


def _find(artifacts: Artifacts, source: str) -> Artifact:
    if "/" in source:
        return find_adapter(source, store=artifacts.store)
    line, mark, version = source.partition("@")
    name = f"{own_line(line)}{mark}{version}"
    return names.find_model(artifacts, name, tenant=name.partition(".")[0])


def _of(base: Artifact, servers: ServersFile) -> ServersFile:
    """The servers of one base; others are not contacted, and their keys are not needed."""
    source = source_of(base.manifest.identity["params"])
    return servers.model_copy(update={"servers": [each for each in servers.servers if each.base == source]})


def _all_said(settings: Mapping[str, ServerSettings | None]) -> dict[str, ServerSettings]:
    """All settings. Raises Misconfigured if some are missing."""
    if silent := [name for name, own in settings.items() if own is None]:
        raise Misconfigured(
            f"computes is not set for {', '.join(silent)}",
            where="servers.yaml",
            remedy="Add computes: {engine: vllm VERSION, dtype: …}. Parity is proved for these settings.",
        )
    return {name: own for name, own in settings.items() if own is not None}


def _answering(fleet: StoreFleet, base: Artifact, *, expected: int) -> list[Endpoint]:
    """The servers of a base, once all answer. Raises NoServer, with the reason why one does not."""
    wanted = Base(address=str(base.address), digest=base.digest, source=source_of(base.manifest.identity["params"]))
    until = time.monotonic() + _START_S
    while True:
        states = [state for state in fleet.provide([wanted]) if state.base == base.digest]
        ready = [state.endpoint for state in states if state.endpoint is not None]
        if len(ready) >= expected:
            return ready
        troubles = [f"{state.name}: {state.trouble}" for state in states if state.trouble]
        if troubles or time.monotonic() > until:
            raise NoServer(
                "; ".join(troubles) or f"it did not answer within {_START_S:.0f} s",
                where=str(base.address),
                remedy="Look at the server's log, and check again.",
            )
        time.sleep(_LOOK_EVERY_S)


def _require_engine(endpoint: Endpoint, settings: ServerSettings) -> None:
    """Raise Misconfigured if the server's version differs from that in ``servers.yaml``."""
    with closing(HttpServer(endpoint.url, endpoint.key)) as server:
        said = server.version()
    if said and said not in settings.engine.split():
        raise Misconfigured(
            f"{endpoint.name} reports version {said}, but its settings have {settings.engine}",
            where="servers.yaml",
            remedy=f"Correct computes.engine of {endpoint.name}.",
        )
