"""Promotion: checked and recorded moves of a line's adapters.

``promote``, ``rollback`` and ``retire`` each append one record to the line's log, or raise UserError and change
nothing. Each then updates MLflow, which may be down: the log is authoritative, and ``ft rebuild`` mirrors it later.
"""

import logging
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from ft_assets.control import identity
from ft_assets.control.identity.doctor import refuse_sick_pack
from ft_assets.control.lines.eligibility import (
    accepted_adapter,
    all_at_once,
    require_safety,
    require_servable_base,
    require_verdicts,
)
from ft_assets.control.lines.lines import (
    POINTERS,
    LineState,
    Pointer,
    PromotionRecord,
    Stage,
    append,
    check_line,
    read_line,
)
from ft_assets.control.lines.mlflow_registry import mirror_line
from ft_assets.control.lines.proposals import WaitsForSecondPerson, propose
from ft_assets.control.lines.signing import assure_signed
from ft_assets.control.lines.walls import asked_by_adapter, walls
from ft_assets.control.parity.proofs import require_parity
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.settings.keys import DatasetKey, RecipeKey, line_of
from ft_assets.settings.servers import ServersFile, load_servers
from ft_assets.settings.tenants import NO_TENANTS, TenantsFile
from ft_assets.settings.ungated import UNGATED
from ft_assets.workers.adapters.lineage import lineage
from ft_assets.workers.adapters.rejection import require_pass
from ft_assets.workers.evals.verdicts import judge_candidate
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.errors import MissingInput, UserError
from ft_resources.tracking import Log

INCUMBENT = "incumbent"
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """A request: by whom, why, and with which configuration.

    Args:
        tenants: what is served and how safe it must be, for a move to production; without it nothing may go there.
        servers: those that others started, where parity is demanded of them; None for what ``load_servers`` reads.
        made_by: the root of the makers of the key that proved the actor; empty for no key.
        waive_incumbent: accept an inconclusive comparison with the incumbent, but never a failed one.
        tracking: MLflow's URI; None for the configured one, empty for none.
    """

    actor: str
    reason: str
    waive_incumbent: bool = False
    tenants: TenantsFile = NO_TENANTS
    servers: ServersFile | None = None
    made_by: str = ""
    tracking: str | None = None
    log: Log = _LOG

    def __post_init__(self) -> None:
        for name, text in (("an actor", self.actor), ("a reason", self.reason)):
            if not text.strip():
                raise UserError(f"a promotion needs {name}", where="promotion", remedy="Name it; it is recorded.")


def promote(artifacts: Artifacts, target: str, stage: Stage, decision: Decision) -> tuple[PromotionRecord, bool]:
    """Move an adapter of a line to ``stage``; the second value is False if it is there already.

    Args:
        target: a line (for its adapter one stage below, or its only one), an adapter's address, or a pair
            ``DATASET|RECIPE``.

    Raises UserError if a check refuses it, WaitsForSecondPerson where the tenants file wants another person's approval
    and this is the proposal, and PromotionLost if another promotion was first.
    """
    if stage not in POINTERS:
        return _retire(artifacts, target, stage, decision)
    record, new = prepare(artifacts, target, stage, decision)
    if not new:
        return record, False
    if stage == "production" and decision.tenants.second_person_of(record.line.partition(".")[0]):
        raise WaitsForSecondPerson(
            propose(artifacts.store, record, made_by=decision.made_by, waive_incumbent=decision.waive_incumbent)
        )
    return append_and_mirror(artifacts, record, decision), True


def prepare(artifacts: Artifacts, target: str, stage: Pointer, decision: Decision) -> tuple[PromotionRecord, bool]:
    """The record of a promotion that every check allows, not yet in the log; or the one by which the adapter stands
    there already, and False. Raises UserError if a check refuses it."""
    line, address = _resolve(artifacts, target, stage)
    state = read_line(artifacts.store, line)
    adapter = accepted_adapter(artifacts, address, line)
    standing = state.at(stage)
    if standing is not None and standing.adapter.address == address:
        return standing, False
    _require_in_use(state, address)
    waived: list[str] = []
    judged = partial(require_verdicts, artifacts, adapter)
    if stage != "production":
        findings = judged()
    else:
        tenants, asked = decision.tenants, asked_by_adapter(artifacts, adapter)
        # A rollback does without most: in an emergency the previous adapter returns, even if limits are stricter now.
        # A proposal is signed where it is approved.
        found = walls(artifacts.store, tenants, asked, signs=not tenants.second_person_of(asked.tenant))
        checks = [judged, *([partial(require_safety, adapter)] if asked.safety else [])]
        if tenants.parity_of(line):
            servers = load_servers() if decision.servers is None else decision.servers
            checks.append(partial(require_parity, artifacts, adapter, servers))
        checks.append(partial(_beat_incumbent, artifacts, state, adapter, decision, waived))
        findings = [*all_at_once(address, found, *checks), "the base is served, and not held"]
    return _record(artifacts, state, adapter, stage, decision, findings=findings, waived=waived), True


def rollback(
    artifacts: Artifacts, line: str, decision: Decision, *, stage: Pointer = "production", to: str = ""
) -> PromotionRecord:
    """Point ``stage`` to an adapter that was there before: the last one, or the one at address ``to``.

    Nothing is measured again, so it takes seconds. The adapter must exist, be in use and have a served base.
    Raises UserError if there is no such adapter, and PromotionLost if another promotion was first.
    """
    state = read_line(artifacts.store, line)
    current = state.at(stage)
    adapter = _earlier(artifacts, state, stage, to)
    if stage == "production":
        require_safety(adapter)
        require_servable_base(artifacts, adapter, decision.tenants)
    findings = [f"it was in {stage} before"]
    if current is not None:
        findings.append(f"{current.adapter.address} is removed from {stage}")
    record = _record(artifacts, state, adapter, stage, decision, kind="rollback", findings=findings)
    return append_and_mirror(artifacts, record, decision)


def _retire(artifacts: Artifacts, target: str, stage: Stage, decision: Decision) -> tuple[PromotionRecord, bool]:
    """Deprecate an adapter (no further promotion) or archive it (out of use, even in its present stages)."""
    if not ("/" in target or "|" in target):
        raise UserError(
            f"it is ambiguous which adapter of {target} should go to {stage}",
            where="promotion",
            remedy=f"Give its address: ft line {target}",
        )
    line, address = _resolve(artifacts, target, stage)
    state = read_line(artifacts.store, line)
    marked = state.deprecated | state.archived if stage == "deprecated" else state.archived
    if address in marked:
        return next(
            r for r in reversed(state.records) if r.adapter.address == address and r.stage not in POINTERS
        ), False
    adapter = artifacts.get(Address.parse(address))
    record = _record(artifacts, state, adapter, stage, decision, findings=[])
    return append_and_mirror(artifacts, record, decision), True


def _resolve(artifacts: Artifacts, target: str, stage: Stage) -> tuple[str, str]:
    """The line and adapter address of a user's target. Never the newest of several: an ambiguous target is refused."""
    if "|" in target:
        dataset, _, recipe = target.partition("|")
        line = line_of(DatasetKey.parse(dataset), RecipeKey.parse(recipe))
        return line, str(_of_pair(artifacts, dataset, recipe).address)
    if "/" in target:
        adapter = artifacts.get(Address.parse(target))
        if adapter.address.asset in ("adapter", UNGATED):
            identity.require_gated(adapter.manifest.identity["params"], target)
        if adapter.address.asset != "adapter":
            what = f"this is a {adapter.address.asset}, not an adapter"
            raise UserError(what, where=target, remedy="Name an accepted adapter: ft adapter list")
        return str(adapter.facts["line"]), str(adapter.address)
    state = read_line(artifacts.store, check_line(target))
    below = POINTERS[: POINTERS.index(stage)] if stage in POINTERS else ()
    for lower in reversed(below):
        if (found := state.at(lower)) is not None:
            return target, found.adapter.address
    return target, _only_one(artifacts, state)


def _of_pair(artifacts: Artifacts, dataset: str, recipe: str) -> Artifact:
    """The pair's accepted adapter. Raises GateRejected or DoctorRefused where its candidate did not pass or its pack is
    sick: making it again gives none."""
    try:
        return identity.adapter(artifacts, dataset, recipe)
    except MissingInput as missing:
        if missing.asset == "adapter":
            request = identity.adapter_request(artifacts, dataset, recipe)
            require_pass(judge_candidate(artifacts, request.inputs, request.params), request.label)
        if missing.asset == "checkpoint":
            refuse_sick_pack(artifacts, dataset, recipe)
        raise


def _only_one(artifacts: Artifacts, state: LineState) -> str:
    """The address of the line's only accepted adapter that is in use."""
    tenant = state.line.partition(".")[0]
    found = []
    for fingerprint in artifacts.store.folders(f"{tenant}/adapter"):
        address = Address(tenant=tenant, asset="adapter", fingerprint=fingerprint)
        if str(address) in state.deprecated | state.archived:
            continue
        adapter = artifacts.find(address)
        if adapter is not None and adapter.facts["line"] == state.line:
            found.append(str(address))
    if len(found) == 1:
        return found[0]
    several = f"{len(found)} accepted adapters, and none is in the stage below: {', '.join(found)}"
    raise UserError(
        f"the line has {several if found else 'no accepted adapter in use'}",
        where=f"line {state.line}",
        remedy="Give its address: ft adapter list",
    )


def _earlier(artifacts: Artifacts, state: LineState, stage: Pointer, to: str) -> Artifact:
    """The adapter to roll back to."""
    current = state.at(stage)
    now = current.adapter.address if current else ""
    stood = [record.adapter.address for record in state.records if record.stage == stage]
    behind = [record.adapter.address for record in state.standing[stage]]
    # The predecessor of the present one; if the present one was archived, the last that was there.
    candidates = [to] if to else list(reversed(behind[:-1] if current else stood))
    if to and (to not in stood or to == now):
        raise UserError(
            f"{to} {'is already in' if to == now else 'was never in'} {stage}",
            where=f"line {state.line}",
            remedy=f"Name one that was there before (ft line {state.line}), or promote it.",
        )
    reasons: list[str] = []
    for address in candidates:
        try:
            _require_in_use(state, address)
            return accepted_adapter(artifacts, address, state.line)
        except UserError as error:
            reasons.append(f"{address}: {error.what}")
    raise UserError(
        f"no adapter that was in {stage} before can be used" + "".join(f"\n{reason}" for reason in reasons),
        where=f"line {state.line}",
        remedy=f"Promote another adapter: ft line {state.line}",
    )


def _require_in_use(state: LineState, address: str) -> None:
    for mark, marked in (("archived", state.archived), ("deprecated", state.deprecated)):
        if address in marked:
            record = next(r for r in reversed(state.records) if r.adapter.address == address and r.stage == mark)
            raise UserError(
                f"it was {mark} by {record.actor} on {record.at[:10]} ({record.reason})",
                where=address,
                remedy="Promote another adapter of the line; this one cannot be used.",
            )


def _beat_incumbent(
    artifacts: Artifacts, state: LineState, candidate: Artifact, decision: Decision, waived: list[str]
) -> list[str]:
    """The result of the comparison with the adapter in production. Raises UserError unless it passes or is waived."""
    incumbent = state.at("production")
    if incumbent is None:
        return ["no adapter of the line was in production"]
    # Imported here: numpy and Parquet import slowly, and only a change of production needs them.
    from ft_assets.control.lines.incumbent import compare_with_incumbent, not_compared

    standing = artifacts.get(Address.parse(incumbent.adapter.address))
    verdict = compare_with_incumbent(artifacts, candidate, standing, decision.tenants.production_regression)
    left_out = [f"not compared: {name}" for name in not_compared(artifacts, candidate, standing)]
    if verdict.outcome == "pass":
        return [f"not worse than {incumbent.adapter.address}: {verdict.reason}", *left_out]
    if verdict.outcome == "inconclusive" and decision.waive_incumbent:
        waived.append(INCUMBENT)
        words = (
            f"comparison with {incumbent.adapter.address} inconclusive, waived by {decision.actor}: {verdict.reason}"
        )
        return [words, *left_out]
    raise UserError(
        f"not as good as the line's incumbent ({verdict.outcome}): {verdict.reason or 'nothing in common'}",
        where=incumbent.adapter.address,
        remedy="Evaluate on more items, or train a better adapter."
        + (" Use --waive-incumbent to waive an inconclusive comparison." if verdict.outcome == "inconclusive" else ""),
    )


def _record(
    artifacts: Artifacts,
    state: LineState,
    adapter: Artifact,
    stage: Stage,
    decision: Decision,
    *,
    kind: Literal["promotion", "rollback"] = "promotion",
    findings: Sequence[str],
    waived: Sequence[str] = (),
) -> PromotionRecord:
    manifest = adapter.manifest
    params, inputs = manifest.identity["params"], manifest.inputs
    nodes = lineage(artifacts, adapter.address).walk()
    packs = [node for _, _, node in nodes if Address.parse(node.address).asset == "token_pack"]
    standing = state.at(stage) if stage in POINTERS else None
    return PromotionRecord(
        id=uuid.uuid4().hex,
        line=state.line,
        seq=len(state.records) + 1,
        kind=kind,
        stage=stage,
        adapter=adapter.ref,
        eval_report=inputs["eval_report"],
        checkpoint=inputs["checkpoint"],
        pack=InputRef(address=packs[0].address, digest=packs[0].digest) if packs else None,
        base=inputs["base"],
        dataset=params["dataset"],
        recipe=params["recipe"],
        recipe_hash=get_recipe(artifacts.store, params["recipe"]).digest,
        metrics=adapter.facts["metrics"],
        findings=list(findings),
        waived=list(waived),
        actor=decision.actor.strip(),
        reason=decision.reason.strip(),
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        replaces=standing.adapter.address if standing else "",
        previous=state.head,
    )


def append_and_mirror(artifacts: Artifacts, record: PromotionRecord, decision: Decision) -> PromotionRecord:
    """Write a record into its line's log, and tell MLflow; what gets to a stage is signed first. Raises PromotionLost
    if another one was first, and Unsigned where signatures are demanded and this process has no key."""
    if record.stage in POINTERS:
        assure_signed(artifacts, record.adapter)
    made = append(artifacts.store, record)
    mirror_line(artifacts, made.line, uri=decision.tracking, log=decision.log)
    return made
