"""Which dataset versions are still needed, and by what.

Anything unreadable is an error: it might depend on what would be retired.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from ft_assets.control.base_bumps.bump import find_bump
from ft_assets.control.base_bumps.progress import open_bumps
from ft_assets.control.erasure.collect import served_adapters
from ft_assets.control.recipes.stored import get_recipe, list_recipes
from ft_assets.records.erased import find_erased
from ft_assets.records.names import DATASET
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.dataset.policy import policy_of
from ft_assets.settings.keys import SHARED, DatasetKey
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import CorruptArtifact
from ft_resources.remembered import Remembered
from ft_resources.store import Store

# Caches of create-only records: pointers, manifests and recipes.
_POINTERS: Remembered[tuple[str, datetime]] = Remembered()
_GROUNDS: Remembered[tuple[str, ...]] = Remembered()
_BASES: Remembered[tuple[str, ...]] = Remembered()
_MIXES: Remembered[frozenset[str]] = Remembered()


def pointer(store: Store, dataset: str) -> tuple[str, datetime]:
    """Address of a version's upload, and when it was added."""

    def find() -> tuple[str, datetime]:
        raw = DATASET.get(store, dataset)
        return str(raw["address"]), datetime.fromisoformat(raw["created_at"])

    found = _POINTERS.get(store, dataset, find)
    assert found is not None
    return found


def needed(artifacts: Artifacts, wanted: Collection[str]) -> dict[str, str]:
    """Which of ``wanted`` are needed, and by what.

    Adapters in staging or production, and those that an open base bump or a recipe's base depends on, need everything
    they were made from. An open submission needs its dataset version and what its recipe's base depends on.
    """
    store = artifacts.store
    reasons: dict[str, str] = {}
    grounds: dict[str, str] = {}
    for address, why in _standing_on(store):
        for each in _walk(artifacts, address):
            grounds.setdefault(each, why)
    for submission in open_submissions(store):
        reasons.setdefault(submission.dataset, f"submission {submission.id} is open")
    for recipe in open_bumps(store):
        bump = find_bump(store, recipe)
        for dependent in bump.dependents if bump else ():
            reasons.setdefault(dependent.dataset, f"the base bump to {recipe} is open")
    for dataset in wanted:
        address, _ = pointer(store, dataset)
        if address in grounds:
            reasons.setdefault(dataset, grounds[address])
    return reasons


def mixes(artifacts: Artifacts, wanted: Iterable[str], versions: Iterable[DatasetKey]) -> dict[str, frozenset[str]]:
    """What each version mixes in, for all versions that could mix in one of ``wanted``: its tenant's, or all tenants'
    for a shared one."""
    tenants = {DatasetKey.parse(key).tenant for key in wanted}
    return {str(key): _mixed(artifacts, str(key)) for key in versions if SHARED in tenants or key.tenant in tenants}


def _mixed(artifacts: Artifacts, dataset: str) -> frozenset[str]:
    def find() -> frozenset[str]:
        upload = artifacts.find(Address.parse(pointer(artifacts.store, dataset)[0]))
        if upload is None:
            # Erased: it no longer mixes in anything.
            return frozenset()
        return frozenset(each.dataset for each in policy_of(upload.manifest.identity["params"]["policy"]).mix)

    return _MIXES.get(artifacts.store, dataset, find) or frozenset()


def _standing_on(store: Store) -> Iterator[tuple[str, str]]:
    """Adapters in use, and how they are used."""
    for address, where in served_adapters(store).items():
        yield address, f"{address} is {where}"
    for recipe in open_bumps(store):
        bump = find_bump(store, recipe)
        for dependent in bump.dependents if bump else ():
            yield dependent.adapter.address, f"the base bump to {recipe} is open"
    for recipe in list_recipes(store):
        for address in _BASES.get(store, recipe, lambda recipe=recipe: _base_of(store, recipe)) or ():  # type: ignore[misc]
            yield address, f"{address} is the base of recipe {recipe}"


def _base_of(store: Store, recipe: str) -> tuple[str, ...]:
    lock = get_recipe(store, recipe).lock
    return (lock.source.removeprefix("artifact:"),) if lock.kind == "artifact" else ()


def _walk(artifacts: Artifacts, address: str) -> set[str]:
    """``address`` and everything it was made from."""
    seen: set[str] = set()
    waiting = [address]
    while waiting:
        current = waiting.pop()
        if current not in seen:
            seen.add(current)
            waiting += _inputs(artifacts, current)
    return seen


def _inputs(artifacts: Artifacts, address: str) -> tuple[str, ...]:
    def find() -> tuple[str, ...]:
        artifact = artifacts.find(Address.parse(address))
        erased = None if artifact else find_erased(artifacts.store, address)
        manifest = artifact.manifest if artifact else erased.manifest if erased else None
        if manifest is None:
            raise CorruptArtifact(
                "something in use was made from this, and both it and a record of its erasure are missing",
                where=address,
                remedy="Restore its manifest from the bucket's versions or a backup, or make it again.",
            )
        return tuple(ref.address for ref in manifest.inputs.values())

    return _GROUNDS.get(artifacts.store, address, find) or ()
