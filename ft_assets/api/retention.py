"""Retention: old dataset versions are retired, and what finished or abandoned work left behind is removed."""

from collections.abc import Collection, Mapping
from datetime import UTC, datetime

from ft_assets.api.defaults import actor_or_user, store_or_default, tenants_or_default
from ft_assets.api.steps import Step
from ft_assets.control.retention import collect_unreferenced as unreferenced
from ft_assets.control.retention.collect_unreferenced import UnreferencedCollected
from ft_assets.control.retention.needed import mixes, needed, pointer
from ft_assets.control.retention.places import PlacesCollected, collect_places
from ft_assets.control.retention.plan import candidates, plan_retention
from ft_assets.records.names import DATASET
from ft_assets.records.retired_datasets import retire, retired_datasets
from ft_assets.records.tombstones import Subject, delete
from ft_assets.settings.keys import SHARED, DatasetKey
from ft_assets.settings.retention import Retention
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.execution import Execution
from ft_resources.launchers.base import Launcher
from ft_resources.store import Store


def retire_datasets(
    *,
    after: str = "",
    most: int = 500,
    most_retired: int = 50,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
) -> Step:
    """Retire dataset versions that the tenants file does not keep (``retention``), and that nothing needs.

    Args:
        after: the key that the last call came to, so that versions that are needed do not hide what comes after them.
        most: versions that are looked at, of those that the rules do not keep.

    Raises UserError where anything cannot be read, as it might depend on what would be retired.
    """
    store, tenants, actor = store_or_default(store), tenants_or_default(tenants), actor_or_user(actor)
    artifacts = Artifacts(store)
    listed = [DatasetKey.parse(text) for text in DATASET.keys(store)]
    rules = _rules(tenants, {key.tenant for key in listed} | {SHARED})
    if not rules:
        return Step(said="no retention is configured")
    retired = retired_datasets(store)
    versions = [key for key in listed if str(key) not in retired]
    timed = [key for key in versions if key.tenant in rules and rules[key.tenant].keep_days is not None]
    added = {str(key): pointer(store, str(key))[1] for key in timed}
    wanted = candidates(versions, rules, added, datetime.now(UTC))
    begin = wanted.index(after) + 1 if after in wanted else 0
    wanted = wanted[begin : begin + most] or wanted[:most]
    looked = f"checked {len(versions)} dataset versions"
    if not wanted:
        return Step(said=f"{looked}: none to retire")
    plan = plan_retention(wanted, needed(artifacts, wanted), mixes(artifacts, wanted, versions))
    log = []
    for dataset in plan.retire[:most_retired]:
        rule = rules[DatasetKey.parse(dataset).tenant]
        reason = f"keep_versions: {rule.keep_versions}, keep_days: {rule.keep_days}"
        if rule.delete:
            # First, so that after a crash in between the next call finds the version again.
            delete(store, Subject.dataset(DatasetKey.parse(dataset)), actor=actor, reason=f"retired ({reason})")
        retire(store, dataset, actor=actor, reason=reason)
        log.append(f"retired {dataset} ({reason})")
    text = f"{looked}: {len(log)} retired, {len(plan.kept)} kept as something needs them"
    kept = (f"kept {dataset}: {why}" for dataset, why in plan.kept.items())
    return Step(said=text, worked=len(log), log=(*log, *kept), after=wanted[-1])


def collect_leftovers(
    *,
    busy: Collection[str] = (),
    launcher: Launcher | None = None,
    after: str = "",
    most: int | None = None,
    seconds: float | None = None,
    dry_run: bool = False,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
) -> PlacesCollected:
    """Remove what dead attempts and writers left, where the tenants file says after how many days
    (``retention.leftovers``).

    Args:
        busy: partition keys of runs that are under way.
        launcher: tells whether a worker lives; without it those on a cluster are taken to.
        after: the address that the last call came to.
        most: objects to remove at most.
        seconds: how long to look at most.

    Raises UserError for a tenants file that cannot be read, and where the store refuses.
    """
    store, tenants = store_or_default(store), tenants_or_default(tenants)
    execution = Execution(store=store, launcher=launcher) if launcher else None
    artifacts = Artifacts(store)
    return collect_places(
        artifacts, tenants, busy=busy, execution=execution, after=after, dry_run=dry_run, most=most, seconds=seconds
    )


def collect_unreferenced(
    *, dry_run: bool = False, store: Store | None = None, tenants: TenantsFile | None = None
) -> UnreferencedCollected:
    """Mark artifacts that can be made again and that nothing leads to, and remove those that have been marked for as
    long as ``retention.leftovers`` says.

    Reads every manifest and record. Raises UserError where one cannot be read; nothing is removed then.
    """
    artifacts = Artifacts(store_or_default(store))
    return unreferenced.collect_unreferenced(artifacts, tenants_or_default(tenants), dry_run=dry_run)


def collects_unreferenced(*, store: Store | None = None, tenants: TenantsFile | None = None) -> bool:
    """Whether a tenant's rule asks for ``collect_unreferenced`` at all; cheap. Raises UserError as that does."""
    return bool(unreferenced.unreferenced_days(store_or_default(store), tenants_or_default(tenants)))


def _rules(tenants: TenantsFile, names: set[str]) -> Mapping[str, Retention]:
    """Each tenant's rule: its own, else the platform's."""
    own = {name: tenant.retention for name, tenant in tenants.tenants.items() if tenant.retention is not None}
    everybody = dict.fromkeys(names, tenants.retention) if tenants.retention is not None else {}
    return {name: rule for name, rule in {**everybody, **own}.items() if rule.on}
