"""Starting and cancelling a rollout."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from ft_assets.control.lines.lines import check_line, read_line
from ft_assets.control.lines.promotion import Decision, prepare
from ft_assets.control.lines.proposals import WaitsForSecondPerson, propose
from ft_assets.control.lines.signing import assure_signed
from ft_assets.control.rollouts.look import model_name
from ft_assets.control.rollouts.require_judge import require_judge
from ft_assets.control.rollouts.rollouts import (
    RolloutPlan,
    RolloutRecord,
    RolloutState,
    append,
    read_rollouts,
)
from ft_assets.records.outcomes import read_outcomes
from ft_assets.settings.rollout_settings import ALONE, KINDS, MARGIN, MINIMUM, OUTCOMES, STEPS
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts, InputRef
from ft_resources.errors import NotFound, UserError
from ft_resources.store import Store
from ft_resources.strict import parse_strict

# The default latency limit is this quantile of the last day's latencies of the incumbent, if it has so many.
_WITHIN, _LEAST = 0.9, 100


@dataclass(frozen=True, kw_only=True)
class Wish:
    """The requested rollout.

    Args:
        candidate: as ``promote`` takes a target.
        steps: weights in percent; the last is 100.
        minimum: outcomes of the candidate of each kind, at each weight.
        outcomes: the kinds that count.
        margins: by kind, the loss that is a regression; ``MARGIN`` for kinds that are not in it.
        latency_limit_s: answers within it are good; None for what nine of ten answers of the incumbent stayed within
            in the last day.
        shadow: percent of the requests that are copied to the candidate before it answers any.
    """

    candidate: str
    steps: Sequence[int] = STEPS
    minimum: int = MINIMUM
    outcomes: Sequence[str] = OUTCOMES
    margins: Mapping[str, float] = field(default_factory=dict)
    latency_limit_s: float | None = None
    shadow: int = 0


def start(
    artifacts: Artifacts, line: str, wish: Wish, decision: Decision, now: datetime | None = None
) -> RolloutRecord:
    """Start a rollout; the candidate has the first weight from then on, or requests are copied to it first.

    Every check of a promotion to production runs before. Raises UserError if one refuses it, for a wish that makes no
    plan, where nothing stands in production, and where a rollout of the line is open; RolloutLost if another one began
    in the same moment; WaitsForSecondPerson for a first weight that needs one.
    """
    store, now = artifacts.store, now or datetime.now(UTC)
    state = read_rollouts(store, check_line(line))
    if state.open is not None:
        going = state.open.last
        raise UserError(
            f"a rollout is open: {going.candidate.address} has {going.share}",
            where=f"line {line}",
            remedy=f"Wait until it ends (ft rollout status {line}), or cancel it: ft rollout cancel {line} --reason …",
        )
    standing = read_line(store, line).at("production")
    if standing is None:
        raise UserError(
            "there is no adapter in production to compare the candidate with",
            where=f"line {line}",
            remedy=f"Promote the first adapter directly: ft promote {line} --to production --reason …",
        )
    made, new = prepare(artifacts, wish.candidate, "production", decision)
    if made.line != line or not new:
        what = f"{made.adapter.address} {'is already in production' if made.line == line else f'is of {made.line}'}"
        raise UserError(what, where=f"line {line}", remedy=f"Name another adapter of the line: ft line {line}")
    plan = _plan(store, line, wish, decision, standing.adapter, now)
    if plan.judge is not None:
        require_judge(artifacts, plan.judge, decision.tenants, (made, standing))
    if not plan.shadow and needs_second_person(line, plan.steps[0], decision.tenants):
        waive = decision.waive_incumbent
        raise WaitsForSecondPerson(propose(store, made, made_by=decision.made_by, waive_incumbent=waive))
    record = RolloutRecord(
        id=(drawn := uuid.uuid4().hex),
        line=line,
        seq=state.length + 1,
        kind="started",
        rollout=drawn,
        candidate=made.adapter,
        incumbent=standing.adapter,
        base=made.base,
        plan=plan,
        weight=0 if plan.shadow else plan.steps[0],
        evidence=[],
        findings=made.findings,
        actor=decision.actor.strip(),
        reason=decision.reason.strip(),
        at=now.isoformat(timespec="milliseconds"),
        previous=state.head,
    )
    assure_signed(artifacts, made.adapter)
    return append(store, record)


def needs_second_person(line: str, weight: int, tenants: TenantsFile) -> bool:
    """Whether a share of the traffic is as good as production, which needs another person's approval there."""
    return weight > ALONE and tenants.second_person_of(line.partition(".")[0])


def cancel(store: Store, line: str, *, actor: str, reason: str, now: datetime | None = None) -> RolloutRecord:
    """End the line's open rollout; the incumbent has all traffic again. Raises NotFound where none is open, UserError
    without a reason, and RolloutLost if another decision was first."""
    state = read_rollouts(store, line)
    if state.open is None:
        raise NotFound("no rollout is open", where=f"line {line}", remedy="There is nothing to cancel.")
    if not reason.strip():
        raise UserError("a cancellation needs a reason", where=f"line {line}", remedy="Name it; it is recorded.")
    return append(store, following(state, kind="cancelled", weight=0, actor=actor, reason=reason.strip(), now=now))


def following(state: RolloutState, *, now: datetime | None = None, **values: object) -> RolloutRecord:
    """The next record of the open rollout, not yet in the log."""
    assert state.open is not None
    at = (now or datetime.now(UTC)).isoformat(timespec="milliseconds")
    fields = {
        "id": uuid.uuid4().hex,
        "seq": state.length + 1,
        "previous": state.head,
        "at": at,
        "seal": "",
        "evidence": [],
        "findings": [],
        **values,
    }
    return state.open.last.model_copy(update=fields)


def _plan(store: Store, line: str, wish: Wish, decision: Decision, incumbent: InputRef, now: datetime) -> RolloutPlan:
    unknown = sorted({*wish.outcomes, *wish.margins} - set(KINDS))
    if unknown or not set(wish.margins) <= set(wish.outcomes):
        what = (
            f"{unknown[0]!r} is not a kind of outcome"
            if unknown
            else ("a margin is set for a kind of outcome that is not used")
        )
        raise UserError(what, where="rollout", remedy=f"Kinds of outcomes are {', '.join(KINDS)}.")
    if "format" in wish.outcomes and decision.tenants.settings_of(line).format is None:
        raise UserError(
            "no answer format is set for the line, so the outcome format would never occur",
            where=f"line {line}",
            remedy="Set it in tenants.yaml (lines: format), or do not use this kind.",
        )
    limit = wish.latency_limit_s
    if "latency" in wish.outcomes and limit is None:
        limit = _usual_latency(store, line, incumbent, now)
    judge = decision.tenants.settings_of(line).rollouts.judge if wish.shadow else None
    plan = {
        "steps": list(wish.steps),
        "minimum": wish.minimum,
        "margins": {kind: wish.margins.get(kind, MARGIN) for kind in sorted(wish.outcomes)},
        "latency_limit_s": limit,
        "waive_incumbent": decision.waive_incumbent,
        "made_by": decision.made_by,
        "shadow": wish.shadow,
        "judge": None if judge is None else judge.model_dump(mode="json"),
    }
    return parse_strict(RolloutPlan, plan, "rollout")


def _usual_latency(store: Store, line: str, incumbent: InputRef, now: datetime) -> float:
    name, since = model_name(line, incumbent), (now - timedelta(days=1)).isoformat()
    seen = sorted(
        outcome.value
        for outcome in read_outcomes(store, line, since, now.isoformat())
        if outcome.kind == "latency" and outcome.model == name
    )
    if len(seen) < _LEAST:
        raise UserError(
            f"the incumbent's usual latency is unknown: {len(seen)} answers in the last day, {_LEAST} are required",
            where=f"line {line}",
            remedy="Set a latency limit (--latency-limit SECONDS), or do not use latency (--outcome thumbs).",
        )
    return seen[int(_WITHIN * len(seen))]
