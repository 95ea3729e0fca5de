"""Usage: what an attempt occupied, for whom and at which price; a create-only record, written after its end.

``<tenant>/usage/<YYYY-MM>/<asset>.<fingerprint>.<attempt>.json`` is keyed by attempt, in the month of its end (UTC).
Any process that sees the end may write it. The first record stands, even if two processes place the end in
different months, so usage is counted exactly once.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Literal

from pydantic import Field

from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.names import RECIPE
from ft_assets.settings.gpus import find_hardware
from ft_assets.settings.keys import RecipeKey
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import OPEN_ATTEMPTS, Attempt, Span
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.outcomes import POLICIES, Outcome, Refund
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.strict_model import added_field

# Assets that run on the recipe's GPUs, and whether on all nodes; all others need no GPU.
_ON_GPUS = {"checkpoint": True, "reference_logps": False, "baseline_report": False, "eval_report": False}

# Endings that only the worker itself can report; what happens to its node afterwards does not change them.
_HEARD_OUT = frozenset({Outcome.DONE, Outcome.DIVERGED, Outcome.BAD_DATA})


class UsageRecord(Record):
    """Usage of one attempt."""

    WHAT: ClassVar[str] = "the usage record"

    version: Literal[1] = 1
    key: str = Field(min_length=1, description="ASSET.FINGERPRINT.ATTEMPT; one record each.")
    tenant: str
    asset: str
    label: str = Field(description="Partition key: dataset, recipe or both.")
    actor: str = Field(description="Who requested the work.")
    started_at: float = Field(description="Seconds since the epoch at which its machine was occupied.")
    ended_at: float
    gpus: int = Field(ge=0)
    gpu_type: str = Field(description="Empty if it needs none, or any type.")
    share: float = added_field(1.0, gt=0.0, le=1.0, description="What each counts as: its share, if a part of a GPU.")
    outcome: str = Field(description="How it ended.")
    refund: Refund = Field(description="full: not billed; flagged: billed, until a person decides.")
    price: float = Field(ge=0.0, description="Of a GPU-hour; 0 if none is set.")
    currency: str
    evidence: dict[str, Any] = Field(description="Sources of its times and its refund.")

    @property
    def month(self) -> str:
        """Month of its end (YYYY-MM, UTC)."""
        return month_of(datetime.fromtimestamp(self.ended_at, UTC))

    @property
    def gpu_hours(self) -> float:
        """Occupied GPU-hours, billed or not."""
        return self.gpus * self.share * (self.ended_at - self.started_at) / 3600

    @property
    def billed_hours(self) -> float:
        """GPU-hours that the tenant pays for."""
        return 0.0 if self.refund == "full" else self.gpu_hours

    @property
    def path(self) -> str:
        return f"{usage_folder(self.tenant, self.month)}/{self.key}.json"


def month_of(moment: datetime) -> str:
    """Month of a time (YYYY-MM, UTC)."""
    return moment.astimezone(UTC).strftime("%Y-%m")


def usage_folder(tenant: str, month: str) -> str:
    """The folder of a tenant's records for a month."""
    return f"{tenant}/usage/{month}"


def usage_of(
    store: Store, attempt: Attempt, label: str, actor: str, tenants: TenantsFile, *, now: float | None = None
) -> UsageRecord | None:
    """Usage of an ended attempt; None if it has not ended or was never started. With ``now`` that of one which runs,
    until then, with the outcome ``running``.

    Raises CorruptArtifact for unreadable records, and StoreUnavailable: neither means that nothing was used.
    """
    ending = attempt.ending()
    if ending is None and now is None:
        return None
    span = attempt.span(now=now)
    if span is None:
        return None
    address = attempt.address
    gpus, gpu_type = _gpus(attempt, label)
    hardware = find_hardware(gpu_type) if gpu_type else None
    price, share = (tenants.price_of(hardware), hardware.share) if hardware else (None, 1.0)
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
        share=share,
        outcome=ending.outcome if ending else "running",
        refund=_refund(store, attempt, ending.outcome) if ending else "none",
        price=(price or 0.0) / share * tenants.tier_of(address.tenant).price_factor,
        currency=tenants.currency,
        evidence=_evidence(span, ending.outcome, ending.error) if ending else span.evidence,
    )


def count_usage(
    store: Store, tenants: TenantsFile, *, tenant: str = "", most: int = 10_000, problems: list[str] | None = None
) -> list[UsageRecord]:
    """Write the records of ended attempts, of one tenant or of all; returns the new ones.

    Idempotent: existing records are kept, and an attempt stays listed until its record exists. An unreadable one stays
    listed, is reported in ``problems`` and does not block others. Raises StoreUnavailable.
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
    """Record the usage of the attempt listed at ``path``; the record if it is new."""
    attempt = attempt_at(store, path)
    if attempt.ending() is None or attempt.awaits_place():
        return []
    marker = store.find_json(path)
    if marker is None:
        return []  # Another process was faster.
    record = usage_of(store, attempt, str(marker["label"]), str(marker["actor"]), tenants)
    new = record is not None and not _counted_beside(store, record)
    written = [record] if record and new and record.create(store, record.path) else []
    store.delete(path)
    return written


def _counted_beside(store: Store, record: UsageRecord) -> bool:
    """Whether the attempt was recorded in the month before or after, by a different end time."""
    ended = datetime.fromtimestamp(record.ended_at, UTC)
    first = ended.replace(day=1)
    others = (month_of(first - timedelta(days=1)), month_of(first + timedelta(days=32)))
    return any(store.exists(f"{usage_folder(record.tenant, month)}/{record.key}.json") for month in others)


def _refund(store: Store, attempt: Attempt, outcome: Outcome) -> Refund:
    """Who pays: decided by the cluster's evidence, otherwise by the worker's ending. A worker might lie to get a refund
    for work that it finished: an attempt that published its artifact is billed until a person decides."""
    found: Refund = POLICIES[outcome].refund
    if outcome not in _HEARD_OUT:
        found = (attempt.place() or {}).get("refund", found)
    if outcome is Outcome.OUT_OF_MEMORY and found == "flagged" and _was_expected_to_fit(attempt):
        found = "full"
    if found == "full" and outcome is not Outcome.DONE:
        artifact = Artifacts(store).find(attempt.address)
        if artifact is not None and artifact.manifest.writer.startswith(f"w{attempt.number:04d}-"):
            return "flagged"
    return found


def _was_expected_to_fit(attempt: Attempt) -> bool:
    """Whether the platform expected the attempt's peak memory to fit its GPU. An image of the tenant's own is not what
    was estimated."""
    spec = attempt.spec()
    hardware = find_hardware(spec.resources.gpu_type) if spec and spec.resources.gpu_type else None
    expected = spec.runtime.get("predicted_memory_bytes") if spec and not spec.resources.image else None
    return hardware is not None and expected is not None and expected <= hardware.memory_bytes


def uncounted(store: Store, tenant: str) -> list[str]:
    """Labels of a tenant's attempts without usage records: they run or have just ended."""
    found = (store.find_json(entry.path) for entry in store.entries(_markers(tenant)))
    return [str(marker["label"]) for marker in found if marker]


def read_usage(store: Store, tenant: str, month: str) -> list[UsageRecord]:
    """A tenant's records for a month, sorted by key. Raises CorruptArtifact for an unreadable one."""
    paths = sorted(entry.path for entry in store.entries(usage_folder(tenant, month)))
    return [record for path in paths if (record := UsageRecord.find(store, path))]


def _markers(tenant: str) -> str:
    return f"{OPEN_ATTEMPTS}/{tenant}" if tenant else OPEN_ATTEMPTS


def attempt_at(store: Store, marker: str) -> Attempt:
    """The attempt listed at ``marker``. Raises CorruptArtifact if the marker names none."""
    try:
        _, tenant, name = marker.split("/")
        asset, fingerprint, number = name.removesuffix(".json").split(".")
        return Attempt(store, Address(tenant=tenant, asset=asset, fingerprint=fingerprint), int(number))
    except ValueError as error:
        remedy = "Remove the object; the platform writes no such name."
        raise CorruptArtifact("this is not an open attempt", where=marker, remedy=remedy) from error


def _gpus(attempt: Attempt, label: str) -> tuple[int, str]:
    """Number and type of GPUs that the work uses, from the recipe in its label; what the recipe leaves open, from what
    the attempt was started with."""
    store, asset = attempt.store, attempt.address.asset
    if asset not in _ON_GPUS:
        return 0, ""
    recipe_key = label.rpartition("|")[2]
    try:
        RecipeKey.parse(recipe_key)
    except UserError:
        # Manually started work may have any label; without a recipe nothing can be billed.
        return 0, ""
    if not RECIPE.exists(store, recipe_key):
        return 0, ""
    hardware = get_recipe(store, recipe_key).recipe.hardware
    gpus, gpu_type = hardware.all_gpus if _ON_GPUS[asset] else hardware.most_gpus, hardware.gpu_type
    spec = attempt.spec() if hardware.elastic or hardware.parts else None
    if spec is not None:
        gpu_type = spec.resources.gpu_type or gpu_type
        if spec.resources.gpu_sizes:
            gpus = spec.resources.gpus * hardware.nodes
    return gpus, gpu_type or ""


def _evidence(span: Span, outcome: Outcome, error: dict[str, str] | None) -> dict[str, Any]:
    words = {"error": error["type"], "what": error["what"][:500]} if error else {}
    return {**span.evidence, **words, "policy": POLICIES[outcome].message}


def billed_hours(records: Sequence[UsageRecord]) -> float:
    """Billed GPU-hours."""
    return sum(record.billed_hours for record in records)
