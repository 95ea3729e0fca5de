"""Remove unreferenced artifacts in steps that may be interrupted at any moment."""

from dataclasses import dataclass
from datetime import UTC, datetime

from ft_assets.control.erasure.collect import look
from ft_assets.control.retention.leftovers import RECORDS as ATTEMPT_RECORDS
from ft_assets.control.retention.roots import roots
from ft_assets.control.retention.unreferenced import Unreferenced, plan_unreferenced
from ft_assets.records.submissions import open_submissions
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import MANIFEST, Address, Artifacts
from ft_resources.store import Store

# When an artifact was first seen to be unreferenced, by tenant.
FOLDER = "unreferenced_since"


@dataclass(frozen=True, kw_only=True)
class UnreferencedCollected:
    """The plan, the removed addresses, and the number of deleted objects."""

    plan: Unreferenced
    addresses: tuple[str, ...] = ()
    objects: int = 0


def unreferenced_days(store: Store, tenants: TenantsFile) -> dict[str, int]:
    """Days that unreferenced artifacts are kept, by tenant; tenants without the rule are left out."""
    rules = {name: tenants.leftovers_of(name).unreferenced_days for name in store.tenants()}
    return {name: days for name, days in rules.items() if days is not None}


def collect_unreferenced(
    artifacts: Artifacts, tenants: TenantsFile, *, now: datetime | None = None, dry_run: bool = False
) -> UnreferencedCollected:
    """Mark unreferenced artifacts, and remove those that have been marked for long enough.

    Raises CorruptArtifact if anything cannot be read, and then removes nothing: an unreadable record might reference
    what would be removed. ``now`` is UTC.
    """
    store, now = artifacts.store, now or datetime.now(UTC)
    days = unreferenced_days(store, tenants)
    if not days:
        return UnreferencedCollected(plan=Unreferenced())
    asked = _asked(store)
    situation = look(artifacts, now, whole=True)
    plan = plan_unreferenced(situation.nodes, roots(artifacts, situation), _marks(store), days, now)
    if dry_run:
        return UnreferencedCollected(plan=plan)
    for address in plan.unmark:
        store.delete(_mark(address))
    for address in plan.mark:
        store.create_json(_mark(address), {"at": now.isoformat(timespec="seconds")})
    done, objects = [], 0
    for address in plan.remove:
        if _asked(store) - asked:
            # A submission arrived after the scan; the next run sees what it references.
            break
        objects += _remove(store, address)
        store.delete(_mark(address))
        done.append(address)
    return UnreferencedCollected(plan=plan, addresses=tuple(done), objects=objects)


def _remove(store: Store, address: str) -> int:
    """Remove an artifact, manifest first, so that nobody finds it from then on. Its attempts' records are kept."""
    store.delete(f"{address}/{MANIFEST}")
    paths = [entry.path for entry in store.entries(address) if not _stays(entry.path.removeprefix(f"{address}/"))]
    for path in paths:
        store.delete(path)
    return len(paths) + 1


def _stays(path: str) -> bool:
    parts = path.split("/")
    return parts[0] == "erased" or (parts[0] == "attempts" and len(parts) == 3 and parts[2] in ATTEMPT_RECORDS)


def _asked(store: Store) -> set[str]:
    return {submission.id for submission in open_submissions(store, problems=[])}


def _marks(store: Store) -> dict[str, datetime]:
    found = {}
    for entry in store.entries(FOLDER):
        _, tenant, name = entry.path.split("/")
        asset, fingerprint, _ = name.split(".")
        mark = store.find_json(entry.path)
        if mark is not None:
            found[f"{tenant}/{asset}/{fingerprint}"] = datetime.fromisoformat(mark["at"])
    return found


def _mark(address: str) -> str:
    found = Address.parse(address)
    return f"{FOLDER}/{found.tenant}/{found.asset}.{found.fingerprint}.json"
