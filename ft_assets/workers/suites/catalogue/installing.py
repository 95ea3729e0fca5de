"""``ft suite install``: find the source of each requested suite, and install it."""

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from ft_assets.workers.suites.catalogue.catalogue import Catalogue, read_catalogue
from ft_assets.workers.suites.catalogue.chosen import Chosen, Left, choose, left
from ft_assets.workers.suites.catalogue.hub import (
    HubSuite,
    files_of,
    hub_suites,
    install_from_hub,
    installed_from_hub,
    parse_source,
)
from ft_assets.workers.suites.catalogue.hub_folder import FolderHub
from ft_assets.workers.suites.catalogue.install import Files, install
from ft_assets.workers.suites.suites import RegisteredSuite
from ft_resources.errors import UserError
from ft_resources.store import Store


def install_chosen(
    store: Store, names: Sequence[str], source: str, actor: str, offline: Path | None
) -> list[RegisteredSuite]:
    """See ``api.install_suites``."""
    catalogue, known = read_catalogue(), hub_suites()
    chosen = choose(names, catalogue, known)
    if source:
        keys = _of_source(chosen, catalogue, known, source)
        return _from_hub(store, catalogue, known, dict.fromkeys(keys, source), actor, offline)
    there = {key: found for key in chosen.keys if key in known and (found := installed_from_hub(store, key))}
    laid = _laid(chosen, known, offline) if offline else {}
    sources = {key: source for key, source in laid.items() if key not in there}
    pinned = [key for key in chosen.keys if key in catalogue.suites]
    pinned = [key for key in pinned if key in chosen.named or not catalogue.lacks_package(key, offline)]
    unpinned = [key for key in chosen.keys if key in chosen.named and key in known and key not in {*there, *sources}]
    if unpinned or not (pinned or there or sources):
        lines = left(store, unpinned or chosen.grouped, catalogue, known, offline)
        raise UserError(
            f"the data of {', '.join(names)} are on the Hub, and no commit is pinned",
            where=", ".join(names),
            remedy="Choose one: " + "; ".join(each.command for each in lines),
        )
    done = [*install(store, catalogue, pinned, actor, offline=offline), *there.values()]
    done += _from_hub(store, catalogue, known, sources, actor, offline)
    return sorted(done, key=lambda each: chosen.keys.index(each.key))


def left_of(store: Store, names: Sequence[str], offline: Path | None) -> list[Left]:
    """See ``api.suites_left``."""
    catalogue, known = read_catalogue(), hub_suites()
    return left(store, choose(names, catalogue, known).grouped, catalogue, known, offline)


def _of_source(chosen: Chosen, catalogue: Catalogue, known: dict[str, HubSuite], source: str) -> list[str]:
    """The keys that ``--from`` applies to: those named, and those of the groups with data in its data set."""
    repo, _ = parse_source(source)
    for key in sorted(chosen.named):
        if key in catalogue.suites:
            remedy = "Install it without --from; for your own see: ft suite add."
            raise UserError(f"the data of {key} are not on the Hub", where=key, remedy=remedy)
    grouped = [key for key in chosen.grouped if key in known and known[key].entry.repo == repo]
    if not chosen.named and not grouped:
        remedy = "Name the suite, if this data set is a copy; ft suite catalogue names each suite's own."
        raise UserError(f"no suite of these groups is of the data set {repo}", where=source, remedy=remedy)
    return [key for key in chosen.keys if key in chosen.named or key in grouped]


def _laid(chosen: Chosen, known: dict[str, HubSuite], offline: Path) -> dict[str, str]:
    """The source of each suite whose data are in the folder: some of its files for a named suite, else all."""
    folder = FolderHub(offline)
    names = {key: folder.names(suite.entry.repo) for key, suite in known.items()}
    keys = [
        key
        for key in chosen.keys
        if key in known and names[key] and (key in chosen.named or all(files_of(known[key], names[key]).values()))
    ]
    commits = {repo: folder.commit(repo) for repo in {known[key].entry.repo for key in keys}}
    return {key: f"hub:{repo}@{commits[repo]}" for key in keys for repo in [known[key].entry.repo]}


def _from_hub(
    store: Store,
    catalogue: Catalogue,
    known: dict[str, HubSuite],
    sources: dict[str, str],
    actor: str,
    offline: Path | None,
) -> list[RegisteredSuite]:
    hub = FolderHub(offline) if offline else None
    with TemporaryDirectory(prefix="ft-suites-") as scratch:
        files = Files(catalogue=catalogue, scratch=Path(scratch), offline=offline)
        return [
            install_from_hub(store, key, known[key], source, actor, get=files.get, hub=hub)
            for key, source in sources.items()
        ]
