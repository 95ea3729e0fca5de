"""State of a base bump's dependents, and the submissions that advance it."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime

from ft_assets.control.base_bumps.bump import BaseBump, Dependent
from ft_assets.control.base_bumps.plan import Progress, Standing, Step
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.submissions.submit import submit
from ft_assets.records.carries import Carry, carry_path, noted_training, record_carry, training_path
from ft_assets.records.names import BASE_BUMP, BASE_RELEASE
from ft_assets.records.retired_datasets import Retired, require_not_retired, retired_datasets
from ft_assets.records.submissions import (
    FIRST_WISH,
    Mode,
    Submission,
    SubmissionOutcome,
    find_outcome,
    known_submission,
    open_ids,
    submission_id,
)
from ft_assets.records.tombstones import Subject, require_dataset_alive, require_not_deleted
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.training.variants import VARIANTS
from ft_resources.artifacts import Address
from ft_resources.errors import Deleted
from ft_resources.remembered import Remembered
from ft_resources.store import Store

# A bump submits one carry per pair, so one key is enough.
_KEY = "base-bump"
_PASSED: Remembered[Standing] = Remembered()
_OUTCOMES: Remembered[SubmissionOutcome] = Remembered()


def open_bumps(store: Store) -> list[str]:
    """Successors whose bump is recorded and whose base is not released, sorted."""
    return sorted(set(BASE_BUMP.keys(store)) - set(BASE_RELEASE.keys(store)))


def standings(store: Store, bump: BaseBump) -> Iterator[Standing]:
    """Every dependent of ``bump`` with its state, in the record's order.

    A tenant is listed once, however many dependents it has; passed dependents are read once per process.
    """
    carriable = VARIANTS[get_recipe(store, bump.recipe).recipe.variant].adapters
    sights: dict[str, _Sight] = {}
    retired = frozenset(retired_datasets(store))
    for dependent in bump.dependents:
        key = f"{bump.recipe}|{dependent.dataset}|{dependent.recipe}|{dependent.adapter.address}"
        standing = _PASSED.known(store, key)
        if standing is None:
            tenant = DatasetKey.parse(dependent.dataset).tenant
            if tenant not in sights:
                sights[tenant] = _see(store, tenant, retired)
            standing = _standing(store, bump.recipe, dependent, sights[tenant], carriable=carriable)
            if standing.step is Step.PASSED:
                _PASSED.keep(store, key, standing)
        yield standing


def start_carry(
    store: Store, tenants: TenantsFile, recipe: str, dependent: Dependent, *, actor: str
) -> Submission | None:
    """Record what the pair is carried from, and submit it; None if it was submitted already."""
    carry = Carry(
        dataset=dependent.dataset,
        recipe=recipe,
        adapter=dependent.adapter,
        checkpoint=dependent.checkpoint,
        actor=actor,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    record_carry(store, carry)
    return _submit(store, tenants, recipe, dependent, "carry", _KEY, actor)


def start_training(
    store: Store, tenants: TenantsFile, recipe: str, dependent: Dependent, *, actor: str
) -> Submission | None:
    """Submit a training, which ends the carry; None if it was submitted already."""
    return _submit(store, tenants, recipe, dependent, "train", FIRST_WISH, actor)


def budget_left(store: Store, day: date, per_day: int) -> int:
    """How many trainings the sensors may still submit on ``day``."""
    return max(0, per_day - sum(1 for _ in store.entries(f"retrainings/{day.isoformat()}")))


def _submit(
    store: Store, tenants: TenantsFile, recipe: str, dependent: Dependent, mode: Mode, key: str, actor: str
) -> Submission | None:
    submission, created = submit(
        store,
        tenants,
        dataset=dependent.dataset,
        recipe=recipe,
        actor=actor,
        origin="sensor",
        idempotency_key=key,
        gates=dependent.gates,
        mode=mode,
    )
    return submission if created else None


@dataclass(frozen=True, kw_only=True)
class _Sight:
    """A tick's view of a tenant: ids of open submissions, records about carries, whether it has tombstones, and all
    tenants' retired versions."""

    opened: frozenset[str]
    carries: frozenset[str]
    deletions: bool
    retired: frozenset[str]


def _see(store: Store, tenant: str, retired: frozenset[str]) -> _Sight:
    # List the open ones first: a submission that ends meanwhile is then read, not taken for one never submitted.
    opened = frozenset(open_ids(store, tenant))
    carries = frozenset(entry.path for entry in store.entries(f"{tenant}/carries"))
    deletions = bool(store.folders(f"{tenant}/tombstones"))
    return _Sight(opened=opened, carries=carries, deletions=deletions, retired=retired)


def _standing(store: Store, recipe: str, dependent: Dependent, sight: _Sight, *, carriable: bool) -> Standing:
    dataset, gates = dependent.dataset, dependent.gates
    tenant = DatasetKey.parse(dataset).tenant
    # Both records are written before their submission.
    noted = noted_training(store, dataset, recipe) if training_path(dataset, recipe) in sight.carries else ""
    training, trained = _look(store, tenant, noted, sight)
    asked = carry_path(dataset, recipe) in sight.carries
    carry, carried = _look(store, tenant, submission_id(dataset, recipe, _KEY, gates, "carry") if asked else "", sight)
    outcome = carried if carry is Progress.PASSED else trained or carried
    # A noted training ends the carry even if its submission was never recorded.
    standing = Standing(
        dependent=dependent,
        carriable=carriable and not noted,
        carry=carry,
        training=training,
        adapter=outcome.adapter if outcome else "",
        reason=outcome.reason if outcome else "",
    )
    if Progress.PASSED in (training, carry):
        return standing
    try:
        if dataset in sight.retired:
            require_not_retired(store, dataset)
        if not sight.deletions:
            return standing
        require_dataset_alive(store, DatasetKey.parse(dataset))
        require_not_deleted(store, Subject.adapter(Address.parse(dependent.adapter.address)))
    except (Deleted, Retired) as error:
        return replace(standing, deleted=True, reason=error.what)
    return standing


def _look(store: Store, tenant: str, submission: str, sight: _Sight) -> tuple[Progress, SubmissionOutcome | None]:
    found = submission and known_submission(store, tenant, submission)
    if not found:
        return Progress.NONE, None
    if submission in sight.opened:
        return Progress.OPEN, None
    outcome = _OUTCOMES.get(store, f"{tenant}/{submission}", lambda: find_outcome(store, found))
    if outcome is None:
        return Progress.OPEN, None
    named = {"accepted": Progress.PASSED, "cancelled": Progress.CANCELLED}
    return named.get(outcome.status, Progress.FAILED), outcome
