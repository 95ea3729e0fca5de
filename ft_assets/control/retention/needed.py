"""What is needed of a store's dataset versions, and by whom.

Whatever cannot be read is an error: what is not understood might stand on what would be retired.
"""

from collections.abc import Collection, Iterable, Iterator
from datetime import datetime

from ft_assets.base_bumps.bump import find_bump
from ft_assets.base_bumps.progress import open_bumps
from ft_assets.datasets.policy import policy_of
from ft_assets.erasure.collect import served_adapters
from ft_assets.erasure.erased import find_erased
from ft_assets.keys import SHARED, DatasetKey
from ft_assets.recipes.register import get_recipe, list_recipes
from ft_assets.submissions.record import open_submissions
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import CorruptArtifact
from ft_resources.remembered import Remembered
from ft_resources.store import Store

# Of create-only records: pointers, manifests and recipes.
_POINTERS: Remembered[tuple[str, datetime]] = Remembered()
_GROUNDS: Remembered[tuple[str, ...]] = Remembered()
_BASES: Remembered[tuple[str, ...]] = Remembered()
_MIXES: Remembered[frozenset[str]] = Remembered()


def pointer(store: Store, dataset: str) -> tuple[str, datetime]:
    """Address of a version's upload, and when it was added."""

    def find() -> tuple[str, datetime]:
        raw = store.get_json(f"names/dataset/{dataset}.json")
        return str(raw["address"]), datetime.fromisoformat(raw["created_at"])

    found = _POINTERS.get(store, dataset, find)
    assert found is not None
    return found


def needed(artifacts: Artifacts, wanted: Collection[str]) -> dict[str, str]:
    """Which of ``wanted`` something needs, and what.

    Adapters in staging and production, and those that an open base bump or a recipe's base stands on, need all that
    they were made of; an open submission needs its version and what its recipe's base stands on.
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
    """What each version mixes in, of all that could mix in one of ``wanted``: those of its tenant, and of a shared one
    everybody's."""
    tenants = {DatasetKey.parse(key).tenant for key in wanted}
    return {str(key): _mixed(artifacts, str(key)) for key in versions if SHARED in tenants or key.tenant in tenants}


def _mixed(artifacts: Artifacts, dataset: str) -> frozenset[str]:
    def find() -> frozenset[str]:
        upload = artifacts.find(Address.parse(pointer(artifacts.store, dataset)[0]))
        if upload is None:
            # Erased: it mixes in nothing any more.
            return frozenset()
        return frozenset(each.dataset for each in policy_of(upload.manifest.identity["params"]["policy"]).mix)

    return _MIXES.get(artifacts.store, dataset, find) or frozenset()


def _standing_on(store: Store) -> Iterator[tuple[str, str]]:
    """Adapters that are in use, and how."""
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
    """``address`` and all that it was made of."""
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
                "something in use was made of this, and neither it nor a record of its erasure is there",
                where=address,
                remedy="Restore its manifest from the bucket's versions or a backup, or make it again.",
            )
        return tuple(ref.address for ref in manifest.inputs.values())

    return _GROUNDS.get(artifacts.store, address, find) or ()
