"""Manual refund decisions, for attempts flagged because it is unclear who caused their end."""

from datetime import UTC, datetime
from typing import ClassVar, Literal

from pydantic import Field

from ft_assets.control.metering.usage import UsageRecord, usage_folder
from ft_resources.errors import UserError
from ft_resources.records import Record
from ft_resources.store import Store


class RefundDecision(Record):
    """The decision on a flagged attempt, and who made it."""

    WHAT: ClassVar[str] = "the refund's record"

    version: Literal[1] = 1
    key: str = Field(description="Of the usage record.")
    decision: Literal["refund", "bill"]
    actor: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")


def decide_refund(
    store: Store, tenant: str, month: str, key: str, *, refund: bool, actor: str, reason: str
) -> RefundDecision:
    """Record the decision on a flagged attempt; the first decision is final.

    Raises UserError if there is no such record, it was not flagged, or it was decided differently before.
    """
    path = f"{usage_folder(tenant, month)}/{key}.json"
    record = UsageRecord.find(store, path)
    if record is None:
        raise UserError(
            f"there is no usage record {key} in {month}", where=path, remedy=f"See: ft usage {tenant} --attempts"
        )
    if record.refund != "flagged":
        raise UserError(
            f"this attempt is already {'refunded' if record.refund == 'full' else 'billed'} by the outcome table",
            where=path,
            remedy="Only flagged attempts need a decision.",
        )
    if not reason.strip():
        raise UserError("a decision needs a reason", where=path, remedy='Say why: --reason "…"')
    decision = RefundDecision(
        key=key,
        decision="refund" if refund else "bill",
        actor=actor,
        reason=reason.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    standing = decision.create_or_get(store, _path(tenant, month, key))
    if standing.decision != decision.decision:
        raise UserError(
            f"already decided by {standing.actor}: {standing.decision}, {standing.reason}",
            where=path,
            remedy="The first decision is final; settle the difference outside the ledger.",
        )
    return standing


def refunds_folder(tenant: str, month: str) -> str:
    """The folder of decisions on a tenant's attempts in a month."""
    return f"{tenant}/refunds/{month}"


def refunded_keys(store: Store, tenant: str, month: str) -> set[str]:
    """Keys of a month's attempts that were refunded by decision."""
    names = (
        entry.path.rsplit("/", 1)[-1].removesuffix(".json") for entry in store.entries(refunds_folder(tenant, month))
    )
    decisions = (find_decision(store, tenant, month, key) for key in names)
    return {decision.key for decision in decisions if decision is not None and decision.decision == "refund"}


def find_decision(store: Store, tenant: str, month: str, key: str) -> RefundDecision | None:
    """The decision on an attempt, or None."""
    return RefundDecision.find(store, _path(tenant, month, key))


def _path(tenant: str, month: str, key: str) -> str:
    return f"{refunds_folder(tenant, month)}/{key}.json"
