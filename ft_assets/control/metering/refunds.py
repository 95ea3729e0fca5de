"""Refunds that somebody has to decide: those flagged because it is not clear whose fault an attempt's end was."""

from datetime import UTC, datetime
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from ft_assets.metering.usage import UsageRecord, usage_folder
from ft_resources.canonical import canonical_json
from ft_resources.errors import UserError
from ft_resources.records import find_record
from ft_resources.store import Store


class RefundDecision(BaseModel):
    """Who decided what of a flagged attempt."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    version: Literal[1] = 1
    key: str = Field(description="Of the usage record.")
    decision: Literal["refund", "bill"]
    actor: str = Field(min_length=1)
    reason: str = Field(min_length=1)
    at: str = Field(description="UTC, ISO 8601.")


def decide_refund(
    store: Store, tenant: str, month: str, key: str, *, refund: bool, actor: str, reason: str
) -> RefundDecision:
    """Record what becomes of a flagged attempt; the first decision stands.

    Raises UserError where there is no such record, it was not flagged, or somebody decided otherwise before.
    """
    path = f"{usage_folder(tenant, month)}/{key}.json"
    record = find_record(store, path, UsageRecord, "the usage record")
    if record is None:
        raise UserError(f"there is no usage {key} in {month}", where=path, remedy=f"See: ft usage {tenant} --attempts")
    if record.refund != "flagged":
        raise UserError(
            f"this attempt is {'refunded' if record.refund == 'full' else 'billed'} by the table of endings",
            where=path,
            remedy="Only flagged attempts are decided by a person.",
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
    if store.create(_path(tenant, month, key), canonical_json(decision.model_dump(mode="json"))):
        return decision
    standing = find_decision(store, tenant, month, key)
    assert standing is not None, f"the decision on {key} vanished"
    if standing.decision != decision.decision:
        raise UserError(
            f"{standing.actor} decided before: {standing.decision}, {standing.reason}",
            where=path,
            remedy="The first decision stands; settle the rest outside of the ledger.",
        )
    return standing


def refunds_folder(tenant: str, month: str) -> str:
    """Where the decisions on a tenant's attempts of a month lie."""
    return f"{tenant}/refunds/{month}"


def refunded_keys(store: Store, tenant: str, month: str) -> set[str]:
    """Keys of the attempts of a month that somebody decided to refund."""
    names = (
        entry.path.rsplit("/", 1)[-1].removesuffix(".json") for entry in store.entries(refunds_folder(tenant, month))
    )
    decisions = (find_decision(store, tenant, month, key) for key in names)
    return {decision.key for decision in decisions if decision is not None and decision.decision == "refund"}


def find_decision(store: Store, tenant: str, month: str, key: str) -> RefundDecision | None:
    """What was decided of an attempt, None where nothing was."""
    return find_record(store, _path(tenant, month, key), RefundDecision, "the refund's record")


def _path(tenant: str, month: str, key: str) -> str:
    return f"{refunds_folder(tenant, month)}/{key}.json"
