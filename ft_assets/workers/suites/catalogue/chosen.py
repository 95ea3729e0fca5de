"""Resolve names of suites and groups, and find what remains to be installed of a group."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ft_assets.records.names import Name
from ft_assets.workers.suites.catalogue.catalogue import GROUPS, Catalogue
from ft_assets.workers.suites.catalogue.hub import HubSuite
from ft_resources.errors import UserError
from ft_resources.store import Store
from ft_resources.strict import nearest


@dataclass(frozen=True, kw_only=True, slots=True)
class Chosen:
    """Keys of suites, each once, in the order of the request; ``named`` are those requested by name."""

    keys: list[str]
    named: frozenset[str]

    @property
    def grouped(self) -> list[str]:
        """Those requested only as part of a group."""
        return [key for key in self.keys if key not in self.named]


@dataclass(frozen=True, kw_only=True, slots=True)
class Left:
    """Suites of a group that need a further step: run ``command``, because of ``why``."""

    suites: tuple[str, ...]
    why: str
    command: str


def choose(names: Sequence[str], catalogue: Catalogue, hub: Mapping[str, HubSuite]) -> Chosen:
    """The suites that ``names`` mean: groups, keys, keys without version, or families such as ``arithmetic``.

    Raises UserError with the nearest known name.
    """
    groups = {key: entry.group for key, entry in catalogue.suites.items()}
    groups |= {key: suite.entry.group for key, suite in hub.items()}
    families = {key: suite.family for key, suite in hub.items()}
    keys: dict[str, None] = {}
    named: set[str] = set()
    for name in names:
        found = [key for key in groups if name in (key, _short(key), families.get(key))]
        named.update(found)
        found += [key for key, group in groups.items() if group == name]
        if not found:
            known = [*GROUPS, *(families.get(key, _short(key)) for key in groups)]
            raise UserError(
                f"the catalogue has no {name!r}; {nearest(name, known)}",
                where=name,
                remedy="ft suite catalogue shows what there is; register anything else with ft suite add.",
            )
        keys |= dict.fromkeys(found)
    return Chosen(keys=list(keys), named=frozenset(named))


def left(
    store: Store, keys: Iterable[str], catalogue: Catalogue, hub: Mapping[str, HubSuite], offline: Path | None
) -> list[Left]:
    """How to install those of ``keys`` that are not registered and need a commit or a package first."""
    missing = [key for key in keys if Name("suite").find(store, key) is None]
    found = []
    for repo in dict.fromkeys(hub[key].entry.repo for key in missing if key in hub):
        suites = tuple(key for key in missing if key in hub and hub[key].entry.repo == repo)
        whole = {key for key, suite in hub.items() if suite.entry.repo == repo} == set(suites)
        # All variants of an entry can be requested by one name.
        families = list(dict.fromkeys(hub[key].family for key in suites))
        asked = " ".join(families if whole else map(_short, suites))
        why = f"their data are on the Hub ({hub[suites[0]].entry.licence}), and no commit is pinned"
        found.append(Left(suites=suites, why=why, command=f"ft suite install {asked} --from hub:{repo}@COMMIT"))
    for key in missing:
        if key in catalogue.suites and (package := catalogue.lacks_package(key, offline)):
            why = f"its data are in the Python package {package}, which is not installed"
            command = f"pip install '{package}' && ft suite install {_short(key)}"
            found.append(Left(suites=(key,), why=why, command=command))
    return found


def _short(key: str) -> str:
    return key.rpartition(".v")[0]
