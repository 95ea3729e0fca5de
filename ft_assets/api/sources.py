"""Sources of datasets: watched, so that new versions are added automatically."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ft_assets.api.defaults import (
    Known,
    Orchestrator,
    actor_or_user,
    orchestrator_or_default,
    store_or_default,
    tenants_or_default,
)
from ft_assets.api.own_keys import own_name
from ft_assets.api.steps import Step
from ft_assets.control import identity
from ft_assets.control.registry.adding import parse_name
from ft_assets.control.registry.looking import Looks
from ft_assets.control.registry.pulling import place_of, pull
from ft_assets.control.registry.versions import DatasetVersion
from ft_assets.records.sources import Pull, Watch, find_watch, last_pull, now, record_watch, rows_key, watches
from ft_assets.settings.dataset.policy import load_policy
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_resources.strict import read_text

# Passed to the pull of a source that cannot be checked: the pull then fails where the tenant sees cause and remedy.
_UNREADABLE = "after it could not be looked at"

Materialized = Callable[[str], str]
"""Returns the id of an asset's latest materialization in Dagster, or "" before the first one."""


@dataclass(frozen=True, kw_only=True)
class Watched:
    """A watched dataset: where its rows come from, and what became of them last; None if nothing was pulled yet."""

    dataset: str
    source: str
    last: Pull | None


@dataclass(frozen=True, kw_only=True)
class News:
    """Rows of a source that were not pulled yet, identified by ``key``."""

    tenant: str
    dataset: str
    seen: str
    key: str


def watch_dataset(
    name: str,
    policy: Path | str,
    *,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
) -> tuple[Watch, bool, str]:
    """From now on, take new versions of ``name`` (``tenant.name``) from the ``source`` in the file ``policy``.

    The source is looked at first. Returns the record, whether it says anything new, and what the source has. Raises
    BadRecipe for the policy, UserError for a source that the tenant may not read, or that cannot be read.
    """
    store, tenants = store_or_default(store, create=True), tenants_or_default(tenants)
    key = parse_name(own_name(name))
    settled = load_policy(read_text(Path(policy), str(policy)), str(policy))
    watch = Watch(
        tenant=key.tenant, name=key.name, policy=settled.model_dump(mode="json"), actor=actor_or_user(actor), at=now()
    )
    seen = place_of(store, tenants, watch)[1].look()
    return watch, record_watch(store, watch), seen


def unwatch_dataset(name: str, *, store: Store | None = None, actor: str = "") -> bool:
    """Stop watching the source of ``name``; its versions stay. False if it was not watched."""
    key = parse_name(own_name(name))
    last = Watch(tenant=key.tenant, name=key.name, policy=None, actor=actor_or_user(actor), at=now())
    return record_watch(store_or_default(store), last)


def watched_datasets(*, tenant: str = "", store: Store | None = None) -> list[Watched]:
    """The watched datasets of one tenant, or of all."""
    store = store_or_default(store)
    return [
        Watched(
            dataset=watch.dataset,
            source=source.described if (source := watch.source()) else "",
            last=last_pull(store, watch),
        )
        for watch in watches(store)
        if tenant in ("", watch.tenant)
    ]


def pull_dataset(
    name: str,
    *,
    seen: str = "",
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
) -> tuple[Pull, DatasetVersion]:
    """Read the source of a watched dataset now, and add its rows as a version.

    ``seen`` names the materialization that was noticed, where the source waits for an asset. Raises UserError for a
    dataset that is not watched and a source that cannot be read, BadData for rows that cannot be used.
    """
    store, actor = store_or_default(store), actor_or_user(actor)
    name = own_name(name)
    watch = find_watch(store, name)
    if watch is None:
        raise UserError(
            f"{name} is not watched",
            where=name,
            remedy=f"Name its source in a dataset.yaml, and run `ft dataset watch {name} --policy dataset.yaml`.",
        )
    seen = seen or f"by hand at {now()}"
    pulled, added = pull(store, tenants_or_default(tenants), watch, seen=seen, actor=actor)
    shown = orchestrator_or_default(orchestrator)
    shown.show_keys(dataset=str(added.key))
    raw = identity.raw_dataset(Artifacts(store), str(added.key))
    shown.show_artifacts([Known(asset="raw_dataset", keys=(str(added.key),), artifact=raw, above={})])
    return pulled, added


def news_of_sources(
    materialized: Materialized,
    *,
    after: str = "",
    seconds: float = 30.0,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
) -> tuple[list[News], Step]:
    """The sources that have rows which nobody pulled. After ``seconds`` the rest is left to the next call, which begins
    behind ``after``. A source that cannot be looked at, or takes long, is named, and the others go on; where it cannot,
    it is news, too.
    """
    store, tenants = store_or_default(store), tenants_or_default(tenants)
    known = watches(store)
    left = [watch for watch in known if watch.dataset > after]
    news: list[News] = []
    problems: list[str] = []
    looked, last = 0, ""
    for watch, found in _looks.at(left, partial(_look, store, tenants, materialized), store=store.url, seconds=seconds):
        looked, last = looked + 1, watch.dataset
        if isinstance(found, News):
            news.append(found)
        elif isinstance(found, UserError):
            problems.append(f"{watch.dataset}: {found.what}")
            news.append(_news(watch, _UNREADABLE))
        elif isinstance(found, TimeoutError):
            problems.append(f"{watch.dataset}: no response from its source yet")
    said = f"checked {looked} of {len(known)} sources: {len(news)} changed"
    after = last if looked < len(left) else ""
    return news, Step(said="; ".join([said, *problems]), worked=len(news), warnings=tuple(problems), after=after)


def _look(store: Store, tenants: TenantsFile, materialized: Materialized, watch: Watch) -> News | None:
    source, place = place_of(store, tenants, watch)
    seen = materialized(source.asset) if source.asset else place.look()
    found, last = _news(watch, seen), last_pull(store, watch)
    return None if not seen or (last is not None and last.rows == found.key) else found


def _news(watch: Watch, seen: str) -> News:
    return News(tenant=watch.tenant, dataset=watch.dataset, seen=seen, key=rows_key(watch, seen))


# Of all ticks in this process: a look may take longer than one.
_looks: Looks[News | None] = Looks()
