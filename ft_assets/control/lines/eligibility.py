"""Conditions for an adapter to enter a stage. Each check raises UserError; all of them fail closed."""

import json
from collections.abc import Callable, Iterable, Sequence

from ft_assets.control.identity import require_gated
from ft_assets.control.lines.walls import asked_by_adapter, base_walls
from ft_assets.records.tombstones import require_alive
from ft_assets.settings.tenants import TenantsFile
from ft_assets.settings.ungated import UNGATED
from ft_assets.workers.adapters.rejection import rejection_reason
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, UserError, in_sentences
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
            remedy=f"Promote it in its own line, or choose an adapter of {line}: ft adapter list",
        )
    require_alive(artifacts.store, artifact)
    return artifact


def require_verdicts(artifacts: Artifacts, adapter: Artifact) -> list[str]:
    """The finding that the adapter's stored verdicts pass, and its evidence passes again when judged today. Raises
    UserError where it does not."""
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
            f"its evidence no longer passes every gate\n{reason}",
            where=str(adapter.address),
            remedy="Check for changes (ft verify), or materialize adapter for this pair again.",
        )
    return ["every gate passed when it was judged again"]


def require_safety(adapter: Artifact) -> list[str]:
    """The finding that the adapter has a verdict of the safety gate that is a pass without a waiver. Raises UserError
    where it has none."""
    verdict = _verdicts(adapter).get(SAFETY)
    if verdict is not None and verdict["outcome"] == "pass" and not verdict.get("waiver"):
        return ["the safety gate passed"]
    said = "is not among its verdicts" if verdict is None else f"says: {verdict['outcome']}"
    raise UserError(
        f"production needs a passed safety gate, and it {said}",
        where=f"{adapter.address}/{VERDICTS}",
        remedy="Use a recipe with a safety gate, and promote an adapter that passes it. This gate cannot be waived.",
    )


def require_servable_base(artifacts: Artifacts, adapter: Artifact, tenants: TenantsFile) -> None:
    """Raise UserError unless the adapter's base is in its tenant's ``served_bases``, and released."""
    all_at_once(str(adapter.address), base_walls(artifacts.store, tenants, asked_by_adapter(artifacts, adapter)))


def all_at_once(where: str, walls: Iterable[UserError], *checks: Callable[[], Sequence[str]]) -> list[str]:
    """The findings of ``checks``. Raises one UserError with all that refuses: the walls, and what checks raise; another
    kind of error at once."""
    refusals, findings = list(walls), list[str]()
    for check in checks:
        try:
            findings += check()
        except UserError as error:
            if type(error) is not UserError:
                raise
            refusals.append(error)
    if not refusals:
        return findings
    if len(refusals) == 1:
        raise refusals[0]
    listed = [f"- {in_sentences(f'{each.what} ({each.where})', each.remedy)}" for each in refusals]
    raise UserError(
        "\n".join([f"{len(refusals)} things stand in its way", *listed]),
        where=where,
        remedy="Each line says what to do.",
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
