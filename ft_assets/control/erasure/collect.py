"""Collecting: look at the store, plan, and carry it out in steps that may be interrupted at any moment.

What was begun is finished by the next call: an artifact's erasure is recorded before its first byte goes.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from ft_assets import identity
from ft_assets.adapters.lines import Pointer, list_lines, read_line
from ft_assets.adapters.promotion import Decision, promote
from ft_assets.erasure.erased import find_erased, record_erasure, remove_bytes
from ft_assets.erasure.plan import ErasurePlan, Node, Situation, plan_erasure
from ft_assets.erasure.tombstones import GRACE_DAYS, Subject, Tombstone, all_tombstones, delete, find_tombstone
from ft_assets.keys import DatasetKey
from ft_assets.submissions.record import all_submissions
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.store import Store

# Folders at the store's root that belong to no tenant, and those of a tenant that say what happened: they stay.
_ROOT = frozenset(
    {
        *("names", "open_submissions", "open_attempts", "retrainings", "retiring", "notices_due"),
        "unreferenced_since",
    }
)
RECORDS = frozenset(
    {
        *("lines", "submissions", "tombstones", "reviews", "sweeps", "carries", "rejections", "notices"),
        "submission_keys",
        *("run_failures", "usage", "quota", "refunds", "cache"),
    }
)
_CACHE = "cache"
_SERVED: tuple[Pointer, ...] = ("staging", "production")
_DATASETS = "names/dataset"


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What was done: addresses whose bytes went, and how many objects that were."""

    plan: ErasurePlan
    addresses: tuple[str, ...]
    objects: int


def erase_tenant(
    artifacts: Artifacts, tenant: str, decision: Decision, *, grace_days: int = GRACE_DAYS
) -> tuple[Tombstone, list[str]]:
    """Delete all of a tenant: nothing new is made from now on, its lines are archived at once, and its bytes go when
    the grace is over. The second value is what was archived. Calling it again finishes what was begun."""
    subject = Subject.of_tenant(tenant)
    tombstone, _ = delete(artifacts.store, subject, actor=decision.actor, reason=decision.reason, grace_days=grace_days)
    archived = []
    for address, where in sorted(served_adapters(artifacts.store).items()):
        if address.split("/")[0] == tenant:
            promote(artifacts, address, "archived", decision)
            archived.append(where)
    return tombstone, archived


def look(artifacts: Artifacts, now: datetime | None = None, *, whole: bool = False) -> Situation:
    """All that the plan looks at; every artifact also where nothing has a tombstone, with ``whole``. Raises
    CorruptArtifact for whatever cannot be read: what is not understood might stand on what would be removed."""
    store = artifacts.store
    tombstones = list(all_tombstones(store))
    uploads = {
        entry.path.rsplit("/", 1)[-1].removesuffix(".json"): str(store.get_json(entry.path)["address"])
        for entry in store.entries(_DATASETS)
    }
    return Situation(
        # Without a tombstone nothing goes, and nothing needs to be read.
        nodes={node.address: node for node in _nodes(artifacts)} if tombstones or whole else {},
        uploads=uploads,
        wanted=_wanted(artifacts, uploads) if tombstones or whole else {},
        served=served_adapters(store),
        tombstones=tombstones,
        now=now or datetime.now(UTC),
    )


def collect(artifacts: Artifacts, now: datetime | None = None) -> Collected:
    """Erase what may go. Manifests are kept as records with all their hashes."""
    plan = plan_erasure(look(artifacts, now))
    at = datetime.now(UTC).isoformat(timespec="seconds")
    done, objects = [], 0
    for address, tombstone in plan.remove.items():
        artifact = artifacts.find(Address.parse(address))
        if artifact is not None:
            record_erasure(artifacts.store, artifact, tombstone, at)
        removed = remove_bytes(artifacts.store, address)
        if removed or artifact is not None:
            done.append(address)
            objects += removed
    for tenant in {address.split("/")[0] for address in done}:
        # Rows that curation prepared, by content; all of it can be made again.
        for entry in list(artifacts.store.entries(f"{tenant}/{_CACHE}")):
            artifacts.store.delete(entry.path)
            objects += 1
    return Collected(plan=plan, addresses=tuple(done), objects=objects)


def served_adapters(store: Store) -> dict[str, str]:
    """Adapters in staging and production by address, and where they stand."""
    served: dict[str, str] = {}
    for line in list_lines(store):
        state = read_line(store, line)
        for stage in _SERVED:
            record = state.at(stage)
            if record is not None:
                served[record.adapter.address] = f"in {stage} of {line}"
    return served


def tenant_folders(store: Store) -> list[str]:
    """Tenants with anything in the store, ``shared`` among them."""
    return [name for name in store.folders() if name not in _ROOT]


def _nodes(artifacts: Artifacts) -> Iterator[Node]:
    store = artifacts.store
    for tenant in tenant_folders(store):
        for asset in store.folders(tenant):
            for fingerprint in store.folders(f"{tenant}/{asset}") if asset not in RECORDS else ():
                yield _node(artifacts, Address(tenant=tenant, asset=asset, fingerprint=fingerprint))


def _node(artifacts: Artifacts, address: Address) -> Node:
    artifact = artifacts.find(address)
    if artifact is not None:
        inputs = {name: ref.address for name, ref in artifact.manifest.inputs.items()}
        return Node(address=str(address), inputs=inputs)
    erased = find_erased(artifacts.store, address)
    if erased is not None:
        inputs = {name: ref.address for name, ref in erased.manifest.inputs.items()}
        return Node(address=str(address), inputs=inputs, erased=True)
    # What attempts left that never came to an artifact; it is nobody's ground to stand on.
    attempts = attempts_at(artifacts.store, address)
    spec = artifacts.store.find_json(f"{attempts[-1].path}/spec.json") if attempts else None
    inputs = {name: str(ref["address"]) for name, ref in (spec or {}).get("inputs", {}).items()}
    return Node(address=str(address), inputs=inputs, erased=True)


def _wanted(artifacts: Artifacts, uploads: dict[str, str]) -> dict[str, str]:
    """Addresses that dataset keys which are not deleted lead to with today's code, and by which key or pair."""
    store = artifacts.store
    alive = [key for key in uploads if not _deleted(store, DatasetKey.parse(key))]
    wanted = {uploads[key]: key for key in alive}
    finders: list[tuple[str, Callable[[], Artifact]]] = [
        (key, partial(identity.dataset, artifacts, key)) for key in sorted(alive)
    ]
    tenants = {DatasetKey.parse(key).tenant for key in alive}
    pairs = {(each.dataset, each.recipe) for tenant in tenants for each in all_submissions(store, tenant)}
    for pair in sorted(pair for pair in pairs if pair[0] in alive):
        for find in (identity.token_pack, identity.reference_logps, identity.checkpoint, identity.eval_report):
            finders.append(("|".join(pair), partial(find, artifacts, *pair)))
    for key, found in finders:
        try:
            wanted.setdefault(str(found().address), key)
        except StoreUnavailable:
            raise
        except UserError:
            continue  # It leads nowhere today, and so needs nothing.
    return wanted


def _deleted(store: Store, key: DatasetKey) -> bool:
    subjects = (Subject.dataset(key), Subject(kind="tenant", name=key.tenant))
    return any(find_tombstone(store, subject) is not None for subject in subjects)
