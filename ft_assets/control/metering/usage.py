"""Usage: what an attempt occupied, for whom and at which price; a create-only record, written once it has ended.

``<tenant>/usage/<YYYY-MM>/<asset>.<fingerprint>.<attempt>.json`` is keyed by the attempt and lies in the month in
which the attempt ended (UTC). Whoever finds the attempt ended may write it; the first word stands, also of two that put
the end on two sides of a month's, so it is counted once, however often it is tried.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.keys import RecipeKey
from ft_assets.packs.estimate.hardware import find_hardware
from ft_assets.recipes.register import get_recipe
from ft_assets.tenants import TenantsFile
from ft_resources.artifacts import Address
from ft_resources.attempts import OPEN_ATTEMPTS, Attempt, Span
from ft_resources.canonical import canonical_json
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.outcomes import POLICIES, Outcome, Refund
from ft_resources.records import find_record
from ft_resources.store import Store

# What runs on the recipe's GPUs, and whether on those of all its nodes; everything else needs none.
_ON_GPUS = {"checkpoint": True, "reference_logps": False, "baseline_report": False, "eval_report": False}

# Endings that only a worker that was heard out can say. What becomes of its node afterwards changes nothing of them.
_HEARD_OUT = frozenset({Outcome.DONE, Outcome.DIVERGED, Outcome.BAD_DATA})

# What lies beside the tenants in the store, apart from folders with an underscore, which no tenant's name has.
_NOT_TENANTS = frozenset({"names", "retrainings"})


class UsageRecord(BaseModel):
    """What one attempt used."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    version: Literal[1] = 1
    key: str = Field(min_length=1, description="ASSET.FINGERPRINT.ATTEMPT; one record each.")
    tenant: str
    asset: str
    label: str = Field(description="Partition key: dataset, recipe or both.")
    actor: str = Field(description="Who asked for the work.")
    started_at: float = Field(description="Seconds since the epoch at which its machine was occupied.")
    ended_at: float
    gpus: int = Field(ge=0)
    gpu_type: str = Field(description="Empty where it needs none, or any.")
    outcome: str = Field(description="How it ended.")
    refund: Refund = Field(description="full: not billed; flagged: billed, until somebody looks at it.")
    price: float = Field(ge=0.0, description="Of a GPU-hour; 0 where none is set.")
    currency: str
    evidence: dict[str, Any] = Field(description="What its times and its refund stand on.")

    @property
    def month(self) -> str:
        """YYYY-MM in which it ended, UTC."""
        return month_of(datetime.fromtimestamp(self.ended_at, UTC))

    @property
    def gpu_hours(self) -> float:
        """GPU-hours occupied, whoever pays."""
        return self.gpus * (self.ended_at - self.started_at) / 3600

    @property
    def billed_hours(self) -> float:
        """GPU-hours that the tenant pays for."""
        return 0.0 if self.refund == "full" else self.gpu_hours

    @property
    def path(self) -> str:
        return f"{usage_folder(self.tenant, self.month)}/{self.key}.json"


def month_of(moment: datetime) -> str:
    """YYYY-MM of a moment, UTC."""
    return moment.astimezone(UTC).strftime("%Y-%m")


def usage_folder(tenant: str, month: str) -> str:
    """Where a tenant's records of a month lie."""
    return f"{tenant}/usage/{month}"


def usage_of(store: Store, attempt: Attempt, label: str, actor: str, tenants: TenantsFile) -> UsageRecord | None:
    """What an ended attempt used; None where it has not ended, or nothing was started.

    Raises CorruptArtifact for records that cannot be read, StoreUnavailable: neither says that nothing was used.
    """
    ending = attempt.ending()
    if ending is None:
        return None
    span = attempt.span()
    if span is None:
        return None
    address = attempt.address
    gpus, gpu_type = _gpus(store, address.asset, label)
    hardware = find_hardware(gpu_type) if gpu_type else None
    price = tenants.price_of(hardware) if hardware else None
    return UsageRecord(
        key=f"{address.asset}.{address.fingerprint}.{attempt.number:04d}",
        tenant=address.tenant,
        asset=address.asset,
        label=label,
        actor=actor,
        started_at=span.started_at,
        ended_at=span.ended_at,
        gpus=gpus,
        gpu_type=gpu_type,
        outcome=ending.outcome,
        refund=_refund(attempt, ending.outcome),
        price=(price or 0.0) * tenants.tier_of(address.tenant).price_factor,
        currency=tenants.currency,
        evidence=_evidence(span, ending.outcome, ending.error),
    )


def count_usage(
    store: Store, tenants: TenantsFile, *, tenant: str = "", most: int = 10_000, problems: list[str] | None = None
) -> list[UsageRecord]:
    """Write the records of attempts that have ended, of one tenant or of all; those that were written now.

    Idempotent: a record that is there stays as it is, and the attempt is looked at until its record is there. One that
    cannot be read stays listed, is told in ``problems``, and holds up no other. Raises StoreUnavailable.
    """
    written: list[UsageRecord] = []
    for number, entry in enumerate(sorted(store.entries(_markers(tenant)), key=lambda entry: entry.path)):
        if number == most:
            break
        try:
            written += _count(store, entry.path, tenants)
        except StoreUnavailable:
            raise
        except UserError as error:
            if problems is not None:
                problems.append(f"{error.where}: {error.what}")
    return written


def _count(store: Store, path: str, tenants: TenantsFile) -> list[UsageRecord]:
    """Count the attempt that is listed at ``path``; its record where it was written now."""
    attempt = attempt_at(store, path)
    if attempt.ending() is None or attempt.awaits_place():
        return []
    marker = store.find_json(path)
    if marker is None:
        return []  # Somebody else was faster.
    record = usage_of(store, attempt, str(marker["label"]), str(marker["actor"]), tenants)
    new = record is not None and not _counted_beside(store, record)
    written = (
        [record] if record and new and store.create(record.path, canonical_json(record.model_dump(mode="json"))) else []
    )
    store.delete(path)
    return written


def _counted_beside(store: Store, record: UsageRecord) -> bool:
    """Whether somebody counted the attempt in the month before or after, by another word on when it ended."""
    ended = datetime.fromtimestamp(record.ended_at, UTC)
    first = ended.replace(day=1)
    others = (month_of(first - timedelta(days=1)), month_of(first + timedelta(days=32)))
    return any(store.exists(f"{usage_folder(record.tenant, month)}/{record.key}.json") for month in others)


def _refund(attempt: Attempt, outcome: Outcome) -> Refund:
    """Who pays: by what the cluster saw, else by how the worker ended."""
    by_outcome = POLICIES[outcome].refund
    if outcome in _HEARD_OUT:
        return by_outcome
    found: Refund = (attempt.place() or {}).get("refund", by_outcome)
    return found


def uncounted(store: Store, tenant: str) -> list[str]:
    """Labels of a tenant's attempts whose usage is not counted yet: they run, or have just ended."""
    found = (store.find_json(entry.path) for entry in store.entries(_markers(tenant)))
    return [str(marker["label"]) for marker in found if marker]


def read_usage(store: Store, tenant: str, month: str) -> list[UsageRecord]:
    """A tenant's records of a month, in order of their keys. Raises CorruptArtifact for one that cannot be read."""
    paths = sorted(entry.path for entry in store.entries(usage_folder(tenant, month)))
    return [record for path in paths for record in _read(store, path)]


def usage_tenants(store: Store) -> list[str]:
    """Everybody who may have usage, sorted; ``shared`` is the platform itself."""
    return [name for name in store.folders() if name not in _NOT_TENANTS and "_" not in name]


def _read(store: Store, path: str) -> Iterator[UsageRecord]:
    record = find_record(store, path, UsageRecord, "the usage record")
    if record is not None:
        yield record


def _markers(tenant: str) -> str:
    return f"{OPEN_ATTEMPTS}/{tenant}" if tenant else OPEN_ATTEMPTS


def attempt_at(store: Store, marker: str) -> Attempt:
    """The attempt that is listed at ``marker``. Raises CorruptArtifact where none can be."""
    try:
        _, tenant, name = marker.split("/")
        asset, fingerprint, number = name.removesuffix(".json").split(".")
        return Attempt(store, Address(tenant=tenant, asset=asset, fingerprint=fingerprint), int(number))
    except ValueError as error:
        remedy = "Remove the object; nothing of ours has such a name."
        raise CorruptArtifact("this is no open attempt", where=marker, remedy=remedy) from error


def _gpus(store: Store, asset: str, label: str) -> tuple[int, str]:
    """GPUs that the asset's work runs on by the recipe in its label, and their type."""
    if asset not in _ON_GPUS:
        return 0, ""
    recipe_key = label.rpartition("|")[2]
    try:
        RecipeKey.parse(recipe_key)
    except UserError:
        # Work by hand may have any label; without a recipe nobody can be billed.
        return 0, ""
    if not store.exists(f"names/recipe/{recipe_key}.json"):
        return 0, ""
    hardware = get_recipe(store, recipe_key).recipe.hardware
    return (hardware.all_gpus if _ON_GPUS[asset] else hardware.gpus), hardware.gpu_type or ""


def _evidence(span: Span, outcome: Outcome, error: dict[str, str] | None) -> dict[str, Any]:
    words = {"error": error["type"], "what": error["what"][:500]} if error else {}
    return {**span.evidence, **words, "policy": POLICIES[outcome].message}


def billed_hours(records: Sequence[UsageRecord]) -> float:
    """GPU-hours that are paid for."""
    return sum(record.billed_hours for record in records)
