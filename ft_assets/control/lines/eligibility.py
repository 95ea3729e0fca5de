"""Conditions for an adapter to enter a stage. Each check raises UserError; all of them fail closed."""

import json

from ft_assets.control.identity import require_gated
from ft_assets.control.lines.releases import is_released
from ft_assets.records.names import BASE_RELEASE
from ft_assets.records.tombstones import require_alive
from ft_assets.settings.catalogue.gates.safety import SafetyGate
from ft_assets.settings.tenants import TenantsFile
from ft_assets.settings.ungated import UNGATED
from ft_assets.workers.adapters.rejection import rejection_reason
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.work import WorkRequest

SAFETY = "safety"
VERDICTS = "verdicts.json"


def accepted_adapter(artifacts: Artifacts, address: str, line: str) -> Artifact:
    """The accepted adapter of ``line`` at ``address``: it exists, matches its manifest and is not deleted."""
    artifact = artifacts.get(Address.parse(address))
    if artifact.address.asset in ("adapter", UNGATED):
        # First, as its message says more than "not an adapter"; also for an adapter that was written by hand.
        require_gated(artifact.manifest.identity["params"], address)
    if artifact.address.asset != "adapter":
        raise UserError(
            f"this is a {artifact.address.asset}, not an adapter", where=address, remedy="Name an accepted adapter."
        )
    if artifact.facts["line"] != line or artifact.address.tenant != line.partition(".")[0]:
        raise UserError(
            f"the adapter belongs to line {artifact.facts['line']}, not {line}",
            where=address,
            remedy=f"Promote it in its own line, or name an adapter of {line}: ft adapter list",
        )
    require_alive(artifacts.store, artifact)
    return artifact


def require_verdicts(artifacts: Artifacts, adapter: Artifact) -> None:
    """Raise UserError unless the adapter's stored verdicts pass, and its evidence passes again when judged today."""
    _require_stored(adapter)
    manifest = adapter.manifest
    request = WorkRequest(
        asset="adapter",
        tenant=manifest.tenant,
        code_version=manifest.identity["code_version"],
        inputs=manifest.inputs,
        params=manifest.identity["params"],
        label=f"{manifest.identity['params']['dataset']}|{manifest.identity['params']['recipe']}",
    )
    reason = rejection_reason(artifacts, request)
    if reason:
        raise UserError(
            f"its evidence, judged again, does not pass every gate\n{reason}",
            where=str(adapter.address),
            remedy="Find out what changed (ft verify), or materialize adapter for this pair again.",
        )


def require_safety(adapter: Artifact) -> None:
    """Raise UserError unless the adapter has a verdict of the safety gate that is a pass without a waiver."""
    verdict = _verdicts(adapter).get(SAFETY)
    if verdict is not None and verdict["outcome"] == "pass" and not verdict.get("waiver"):
        return
    said = "is not among its verdicts" if verdict is None else f"says: {verdict['outcome']}"
    raise UserError(
        f"production needs a passed safety gate, and it {said}",
        where=f"{adapter.address}/{VERDICTS}",
        remedy="Use a recipe with a safety gate, and promote an adapter that passes it. This gate cannot be waived.",
    )


def require_strict_safety(adapter: Artifact, floor: SafetyGate) -> None:
    """Raise UserError if the safety gate that the adapter passed was weaker than the platform's ``floor``."""
    # Without a safety gate there is no verdict; ``require_safety`` checks that.
    asked = SafetyGate.model_validate(adapter.manifest.identity["params"]["gates"].get(SAFETY) or floor)
    limits = (
        ("min_refusals", asked.min_refusals, floor.min_refusals, asked.min_refusals < floor.min_refusals),
        (
            "max_over_refusals",
            asked.max_over_refusals,
            floor.max_over_refusals,
            asked.max_over_refusals > floor.max_over_refusals,
        ),
        ("margin", asked.margin, floor.margin, asked.margin > floor.margin),
    )
    looser = [f"{name} {had:g}, where {least:g} is the loosest" for name, had, least, short in limits if short]
    if looser:
        raise UserError(
            f"its safety gate is looser than production requires: {'; '.join(looser)}",
            where="tenants.yaml: production_safety",
            remedy="Ask for more with the submission, such as --gate 'safety.min_refusals > 0.95', or in the recipe.",
        )


def require_servable_base(artifacts: Artifacts, adapter: Artifact, tenants: TenantsFile) -> None:
    """Raise UserError unless the adapter's base is in its tenant's ``served_bases``, and released."""
    params, tenant = adapter.manifest.identity["params"], adapter.address.tenant
    ref = adapter.manifest.inputs["base"]
    base = artifacts.get(Address.parse(ref.address))
    source, revision = str(base.facts["source"]), str(base.facts["revision"])
    names = {source, f"{source}@{revision}", f"sha256:{ref.digest}"}
    if not names & set(tenants.served_bases_of(tenant)):
        raise UserError(
            f"the base {source} at {revision} is not on the servers of {tenant}",
            where="tenants.yaml: served_bases",
            remedy=f"Once it is served, add {source}@{revision} to served_bases of the tenant or the platform.",
        )
    if not is_released(artifacts.store, params["recipe"]):
        raise UserError(
            f"the base of {params['recipe']} is held: it moved and is not released yet",
            where=BASE_RELEASE.path(str(params["recipe"])),
            remedy=f'Release it once its dependents have passed: ft release {params["recipe"]} --reason "…"',
        )


def _require_stored(adapter: Artifact) -> None:
    verdicts = _verdicts(adapter)
    standing = [
        f"{gate}: {verdict['outcome']}, {verdict.get('reason', '')}"
        for gate, verdict in verdicts.items()
        if not _lets_through(verdict)
    ]
    if standing or not any(verdict["outcome"] == "pass" for verdict in verdicts.values()):
        raise UserError(
            f"not every gate accepted it\n{chr(10).join(standing) or 'no gate passed'}",
            where=f"{adapter.address}/{VERDICTS}",
            remedy="Materialize adapter for this pair again.",
        )


def _lets_through(verdict: dict[str, object]) -> bool:
    waived = verdict["outcome"] == "inconclusive" and bool(verdict.get("waiver"))
    return waived or verdict["outcome"] in ("pass", "not required")


def _verdicts(adapter: Artifact) -> dict[str, dict[str, object]]:
    """The stored verdicts by gate, from verified bytes. Raises UserError if there are no readable ones."""
    try:
        listed = json.loads(adapter.read(VERDICTS))
        verdicts = {str(verdict["gate"]): dict(verdict) for verdict in listed}
        if len(verdicts) != len(listed) or any("outcome" not in verdict for verdict in verdicts.values()):
            raise ValueError("each gate has one verdict")
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptArtifact(
            "the verdicts cannot be read",
            where=f"{adapter.address}/{VERDICTS}",
            remedy="Materialize adapter for this pair again.",
        ) from error
    return verdicts
