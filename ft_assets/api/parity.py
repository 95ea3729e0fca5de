"""Parity: whether a server with production's settings answers as the evaluated model did."""

import tempfile
from contextlib import closing
from pathlib import Path

from ft_assets.api.adapters import find_adapter
from ft_assets.api.defaults import actor_or_user, store_or_default
from ft_assets.control.parity import records
from ft_assets.control.parity.records import ParityRecord as ParityRecord
from ft_assets.control.serving.evaluated import evaluated_as
from ft_assets.workers.serving.parity.asked_prompts import PROMPTS
from ft_assets.workers.serving.parity.asked_prompts import Render as Render
from ft_assets.workers.serving.parity.report import ParityReport as ParityReport
from ft_assets.workers.serving.parity.settings import ServerSettings as ServerSettings
from ft_resources.artifacts import Artifacts
from ft_resources.errors import UserError
from ft_resources.serving.fleet import Endpoint, Fleet, ServedModel
from ft_resources.serving.http_server import HttpServer
from ft_resources.store import Store


def check_parity(
    source: str,
    fleet: Fleet,
    endpoint: Endpoint,
    settings: ServerSettings,
    *,
    render: Render,
    prompts: int = PROMPTS,
    store: Store | None = None,
    actor: str = "",
) -> ParityRecord:
    """Load an adapter on a server and compare its answers with the evaluation; the record is permanent.

    Args:
        source: the adapter's line or address.
        settings: those that the server was started with.
        render: gives the token ids of a conversation, as the router sends them.
        prompts: most prompts, of the dataset's holdout and of the suites in turn.

    Returns:
        The record, whose report says proved, failed or not proved, and why. A server that stops answering is one that
        is not proved.

    Raises UserError where there is no such adapter, for another base's server, and as ``Fleet.load`` where the adapter
    cannot be loaded; nothing is recorded then.
    """
    from ft_assets.workers.serving.parity.check import check_parity as check

    store = store_or_default(store)
    adapter = find_adapter(source, store=store)
    base = adapter.manifest.inputs["base"].digest
    if endpoint.base != base:
        raise UserError(
            f"the server {endpoint.name} has the base {endpoint.base[:16]}, and the adapter was trained on {base[:16]}",
            where=endpoint.name,
            remedy="Name a server that has the adapter's base.",
        )
    with tempfile.TemporaryDirectory(prefix="ft-parity-") as scratch:
        evaluated = evaluated_as(Artifacts(store), adapter, Path(scratch))
        model = ServedModel(line=adapter.facts["line"], address=str(adapter.address), digest=adapter.digest, base=base)
        fleet.load(model, endpoint)
        with closing(HttpServer(endpoint.url, endpoint.key)) as server:
            report = check(
                server,
                model.name,
                base=endpoint.model,
                evaluated=evaluated,
                render=render,
                settings=settings,
                prompts=prompts,
            )
    return records.record_parity(store, adapter, report, server=endpoint.name, actor=actor_or_user(actor))


def show_parity(source: str, *, store: Store | None = None) -> list[ParityRecord]:
    """The last check of an adapter (by line or address) for each settings of a server. Raises as ``find_adapter``, and
    CorruptArtifact for records that were altered."""
    store = store_or_default(store)
    return records.list_parity(store, find_adapter(source, store=store))
