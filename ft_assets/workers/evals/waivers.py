"""Waivers: who accepted a candidate although its holdout is too small to decide, for which evidence, and why.

The record is create-only and stored beside its report. It is bound to the report's bytes, to the gate and to its
thresholds: other evidence, or a tighter gate, is inconclusive again.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, ClassVar

from pydantic import Field

from ft_assets.settings.catalogue.gates import GATES, WAIVABLE
from ft_assets.settings.recipe.acceptance import GateSettings
from ft_assets.workers.evals.verdict import Verdict, Waiver
from ft_resources.artifacts import Artifact
from ft_resources.canonical import digest
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.records import Record
from ft_resources.store import Store


class WaiverRecord(Record):
    """One waiver."""

    WHAT: ClassVar[str] = "the waiver"

    gate: str = Field(description="The gate whose inconclusive verdict is waived.")
    digest: str = Field(description="Content digest of the eval report.")
    gates: dict[str, Any] = Field(description="The gates' settings, as JSON.")
    reason: str = Field(description="The verdict's reason at that time.")
    actor: str = Field(description="Who waived it.")
    note: str = Field(description="Why the candidate may be used anyway.")
    at: str = Field(description="UTC, ISO 8601.")


def waive(
    store: Store, report: Artifact, gates: GateSettings, verdict: Verdict, *, actor: str, note: str
) -> WaiverRecord:
    """Waive an inconclusive verdict; returns the first waiver's record if there is one already.

    Raises UserError for any other verdict, for gates that may not be waived, and for an empty note.
    """
    where = f"gate {verdict.gate}"
    if verdict.gate not in WAIVABLE:
        raise UserError(
            f"{verdict.gate} cannot be waived: it is not measured on the tenant's own data",
            where=where,
            remedy=f"Measure more items. These may be waived: {', '.join(sorted(WAIVABLE))}.",
        )
    if verdict.outcome != "inconclusive":
        raise UserError(
            f"{verdict.gate} is {verdict.outcome}, and only an inconclusive verdict can be waived",
            where=where,
            remedy=_REMEDIES[verdict.outcome],
        )
    if not (actor.strip() and note.strip()):
        raise UserError(
            "a waiver needs a name and a note",
            where=where,
            remedy="Give the reason why the candidate may be used anyway.",
        )
    record = WaiverRecord(
        gate=verdict.gate,
        digest=report.digest,
        gates=gates.model_dump(mode="json"),
        reason=verdict.reason,
        actor=actor.strip(),
        note=note.strip(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return record.create_or_get(store, _path(report, gates, verdict.gate))


def find_waiver(store: Store, report: Artifact, gates: GateSettings, verdict: Verdict) -> Waiver | None:
    """The waiver of this verdict, None if there is none or the gate may not be waived. Raises CorruptArtifact for a
    record of another verdict."""
    if verdict.outcome != "inconclusive" or verdict.gate not in WAIVABLE:
        return None
    record = _read(store, report, gates, verdict.gate)
    return None if record is None else Waiver(actor=record.actor, note=record.note, at=record.at)


_REMEDIES: Mapping[str, str] = {
    "fail": "A failed verdict cannot be waived: train another candidate.",
    "pass": "The verdict needs no waiver.",
    "not required": "The verdict needs no waiver.",
}


def _path(report: Artifact, gates: GateSettings, gate: str) -> str:
    assert gate in GATES, gate
    subject = digest({"digest": report.digest, "gates": gates.model_dump(mode="json")})
    return f"{report.address}/waivers/{gate}-{subject}.json"


def _read(store: Store, report: Artifact, gates: GateSettings, gate: str) -> WaiverRecord | None:
    path = _path(report, gates, gate)
    remedy = "Restore the object from the bucket's versions, or remove it and waive the verdict again."
    record = WaiverRecord.find(store, path, remedy)
    if record is None:
        return None
    if (record.gate, record.digest, record.gates) != (gate, report.digest, gates.model_dump(mode="json")):
        raise CorruptArtifact("the waiver belongs to another verdict", where=path, remedy=remedy)
    return record
