"""Erase what tombstones cover: scan the store, plan, and delete in steps that may be interrupted at any moment.

The next call finishes an interrupted one: an artifact's erasure is recorded before its first byte is deleted.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from ft_assets.control import identity
from ft_assets.control.erasure.plan import ErasurePlan, Node, Situation, plan_erasure
from ft_assets.control.lines.lines import Pointer, list_lines, read_line
from ft_assets.control.lines.promotion import Decision, promote
from ft_assets.control.rollouts.rollouts import lines_with_rollouts
from ft_assets.control.rollouts.weights import weights_of
from ft_assets.records.conversations import FOLDER as CONVERSATIONS
from ft_assets.records.erased import find_erased, record_erasure, remove_bytes
from ft_assets.records.files import FILES, delete_file
from ft_assets.records.names import DATASET
from ft_assets.records.outcomes import FOLDER as OUTCOMES
from ft_assets.records.shadow_verdicts import FOLDER as SHADOW_VERDICTS
from ft_assets.records.shadows import CONVERSATIONS as SHADOW_CONVERSATIONS
from ft_assets.records.shadows import FOLDER as SHADOWS
from ft_assets.records.submissions import all_submissions
from ft_assets.records.tombstones import GRACE_DAYS, Subject, Tombstone, all_tombstones, delete, find_tombstone
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.store import Store

# Folders of a tenant that are kept: its audit records.
RECORDS = frozenset(
    {
        *("lines", "proposals", "submissions", "tombstones", "reviews", "sweeps", "carries", "rejections", "notices"),
        *(
            "submission_keys",
            "pulls",
            "jobs",
            "settled_jobs",
            "resumed_jobs",
            "job_keys",
            "deleted_models",
            "file_records",
        ),
        *("run_failures", "usage", "quota", "refunds", "parity", "cache", "rollouts", "signatures"),
        *(OUTCOMES, CONVERSATIONS, SHADOWS, SHADOW_CONVERSATIONS, SHADOW_VERDICTS),
    }
)
_CACHE = "cache"
# What is known of a tenant's users goes with the tenant.
_TRAFFIC = (OUTCOMES, CONVERSATIONS, SHADOWS, SHADOW_CONVERSATIONS, SHADOW_VERDICTS)
_SERVED: tuple[Pointer, ...] = ("staging", "production")


@dataclass(frozen=True, kw_only=True)
class Collected:
    """What was done: erased addresses and the number of deleted objects."""

    plan: ErasurePlan
    addresses: tuple[str, ...]
    objects: int


def erase_tenant(
    artifacts: Artifacts, tenant: str, decision: Decision, *, grace_days: int = GRACE_DAYS
) -> tuple[Tombstone, list[str]]:
    """Delete a tenant: nothing new is made from now on, its lines are archived at once, and its bytes are erased after
    the grace period. The second value is what was archived. Calling it again completes an interrupted call."""
    subject = Subject.of_tenant(tenant)
    tombstone, _ = delete(artifacts.store, subject, actor=decision.actor, reason=decision.reason, grace_days=grace_days)
    archived = []
    for address, where in sorted(served_adapters(artifacts.store).items()):
        if address.split("/")[0] == tenant:
            promote(artifacts, address, "archived", decision)
            archived.append(where)
    return tombstone, archived


def look(artifacts: Artifacts, now: datetime | None = None, *, whole: bool = False) -> Situation:
    """The plan's input; with ``whole``, includes every artifact even if there are no tombstones. Raises
    CorruptArtifact for anything unreadable: it might depend on what would be removed."""
    store = artifacts.store
    tombstones = list(all_tombstones(store))
    uploads = {key: str(DATASET.get(store, key)["address"]) for key in DATASET.keys(store)}
    return Situation(
        # Without tombstones nothing is erased, so nothing needs to be read.
        nodes={node.address: node for node in _nodes(artifacts)} if tombstones or whole else {},
        uploads=uploads,
        wanted=_wanted(artifacts, uploads) if tombstones or whole else {},
        served=served_adapters(store),
        tombstones=tombstones,
        now=now or datetime.now(UTC),
    )


def collect(artifacts: Artifacts, now: datetime | None = None) -> Collected:
    """Erase what may be erased. Manifests are kept as records, with all hashes."""
    situation = look(artifacts, now)
    plan = plan_erasure(situation)
    at = datetime.now(UTC).isoformat(timespec="seconds")
    done, objects = [], 0
    for address, tombstone in plan.remove.items():
        artifact = artifacts.find(Address.parse(address))
        if artifact is not None:
            record_erasure(artifacts.store, artifact, tombstone, at)
        removed = remove_bytes(artifacts.store, address)
        if (found := Address.parse(address)).asset == FILES:
            delete_file(artifacts.store, found.tenant, found.fingerprint)
        if removed or artifact is not None:
            done.append(address)
            objects += removed
    for tenant in {address.split("/")[0] for address in done}:
        # Curation's cache of prepared rows; it can be rebuilt.
        for entry in list(artifacts.store.entries(f"{tenant}/{_CACHE}")):
            artifacts.store.delete(entry.path)
            objects += 1
    for tombstone in situation.tombstones:
        if tombstone.kind == "tenant" and situation.now >= tombstone.due:
            for folder in _TRAFFIC:
                for entry in list(artifacts.store.entries(f"{tombstone.name}/{folder}")):
                    artifacts.store.delete(entry.path)
                    objects += 1
    return Collected(plan=plan, addresses=tuple(done), objects=objects)


def served_adapters(store: Store) -> dict[str, str]:
    """Adapters in staging, in production and in open rollouts: address to where."""
    served: dict[str, str] = {}
    for line in lines_with_rollouts(store):
        # An archived candidate has no share, also where its rollout's end is not recorded yet.
        served.update({address: f"in a rollout of {line}" for address, _ in weights_of(store, line)})
    for line in list_lines(store):
        state = read_line(store, line)
        for stage in _SERVED:
            record = state.at(stage)
            if record is not None:
                served[record.adapter.address] = f"in {stage} of {line}"
    return served


def _nodes(artifacts: Artifacts) -> Iterator[Node]:
    store = artifacts.store
    for tenant in store.tenants():
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
    # Left by attempts that never produced an artifact, so nothing depends on it.
    attempts = attempts_at(artifacts.store, address)
    spec = attempts[-1].spec() if attempts else None
    inputs = {name: ref.address for name, ref in (spec.inputs if spec else {}).items()}
    return Node(address=str(address), inputs=inputs, erased=True)


def _wanted(artifacts: Artifacts, uploads: dict[str, str]) -> dict[str, str]:
    """Addresses that live dataset keys resolve to with today's code, and the key or pair for each."""
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
            continue  # It resolves to nothing today, so it needs nothing.
    return wanted


def _deleted(store: Store, key: DatasetKey) -> bool:
    subjects = (Subject.dataset(key), Subject(kind="tenant", name=key.tenant))
    return any(find_tombstone(store, subject) is not None for subject in subjects)
