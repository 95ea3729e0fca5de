"""A look at an open rollout: its outcomes so far, the evidence, and the decision."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ft_assets.control.lines.eligibility import accepted_adapter
from ft_assets.control.lines.lines import LineState, read_line
from ft_assets.control.lines.proposals import read_proposals
from ft_assets.control.rollouts.decide import Situation, Verdict, decide
from ft_assets.control.rollouts.evidence import ERROR, Arm, Evidence, weigh
from ft_assets.control.rollouts.judged_copies import JudgedCopies, count_verdicts
from ft_assets.control.rollouts.rollouts import Rollout
from ft_assets.control.rollouts.shadow_evidence import SHARE, weigh_pairs
from ft_assets.records.outcomes import Outcome, read_outcomes
from ft_assets.records.shadow_verdicts import ShadowVerdict, read_verdicts
from ft_assets.records.shadows import ShadowPair, read_shadows
from ft_resources.artifacts import Artifacts, InputRef
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.store import Store

SETTLED = timedelta(minutes=2)
"""Minimum age of outcomes: by then every server has written its minute, so a later look finds no earlier outcome."""
_SILENT = 50
"""Least number of unanswered copies that ends a rollout: a server that is still starting leaves fewer."""


@dataclass(frozen=True, kw_only=True)
class Look:
    """The evidence and the decision; ``judged`` counts the verdicts on copied requests, None without a judge."""

    evidence: list[Evidence]
    verdict: Verdict
    judged: JudgedCopies | None = None


def look(artifacts: Artifacts, rollout: Rollout, now: datetime) -> Look:
    """Look at an open rollout; nothing is changed. Raises StoreUnavailable and CorruptArtifact."""
    state = read_line(artifacts.store, rollout.started.line)
    standing = state.at("production")
    pairs = list(_pairs(artifacts.store, rollout, now)) if rollout.last.shadowing else []
    evidence = _evidence(artifacts.store, rollout, pairs, now)
    situation = Situation(
        production=standing.adapter.address if standing else "",
        obstacle=_obstacle(artifacts, rollout, state) or _silence(pairs, rollout.last.plan.minimum),
    )
    return Look(
        evidence=evidence, verdict=decide(rollout, evidence, situation), judged=_judged(artifacts.store, rollout, now)
    )


def model_name(line: str, adapter: InputRef) -> str:
    """Name of the line's adapter on servers, and so in outcomes."""
    return f"{line}@{adapter.digest[:16]}"


def verdicts_of(store: Store, rollout: Rollout, now: datetime) -> list[ShadowVerdict]:
    """What the judge of a rollout said of its copied requests, by time; of several on one request the first that
    stands, and else each try."""
    started, seen, found = rollout.started, set(), []
    if started.plan.judge is None:
        return []
    for verdict in read_verdicts(store, started.line, started.at, now.isoformat()):
        if (verdict.candidate, verdict.incumbent) == names_of(rollout) and verdict.request not in seen:
            found.append(verdict)
            if not verdict.again:
                seen.add(verdict.request)
    return found


def _evidence(store: Store, rollout: Rollout, pairs: Sequence[ShadowPair], now: datetime) -> list[Evidence]:
    plan = rollout.last.plan
    if rollout.last.shadowing:
        return weigh_pairs(pairs, verdicts_of(store, rollout, now), plan.shadowed, plan.latency_limit_s)
    return weigh(
        list(_of_arms(store, rollout, now)),
        margins=plan.margins,
        latency_limit_s=plan.latency_limit_s,
        stage_at=rollout.last.at,
        error=ERROR * (1 - SHARE) if plan.shadow else ERROR,
    )


def _judged(store: Store, rollout: Rollout, now: datetime) -> JudgedCopies | None:
    judge = rollout.started.plan.judge
    if judge is None or not rollout.last.shadowing:
        return None
    return count_verdicts(judge.model.name, verdicts_of(store, rollout, now))


def _of_arms(store: Store, rollout: Rollout, now: datetime) -> Iterator[tuple[Arm, Outcome]]:
    candidate, incumbent = names_of(rollout)
    arms: dict[str, Arm] = {candidate: "candidate", incumbent: "incumbent"}
    for outcome in read_outcomes(store, rollout.started.line, rollout.live_at, (now - SETTLED).isoformat()):
        if outcome.model in arms:
            yield arms[outcome.model], outcome


def _pairs(store: Store, rollout: Rollout, now: datetime) -> Iterator[ShadowPair]:
    started = rollout.started
    for pair in read_shadows(store, started.line, started.at, (now - SETTLED).isoformat()):
        if (pair.candidate, pair.incumbent) == names_of(rollout):
            yield pair


def _silence(pairs: Sequence[ShadowPair], minimum: int) -> str:
    """The obstacle that the candidate answered none of the copied requests that production answered, once these are
    ``minimum`` and _SILENT; otherwise empty. Most kinds of outcomes do not count failed answers, so the rollout would
    wait forever."""
    answered = [pair.candidate_answer for pair in pairs if not pair.incumbent_answer.failed]
    if len(answered) < max(minimum, _SILENT) or not all(each.failed for each in answered):
        return ""
    return f"the candidate answered none of {len(answered)} copied requests, which production answered"


def names_of(rollout: Rollout) -> tuple[str, str]:
    """Names of the candidate and the incumbent on servers."""
    started = rollout.started
    return model_name(started.line, started.candidate), model_name(started.line, started.incumbent)


def _obstacle(artifacts: Artifacts, rollout: Rollout, line: LineState) -> str:
    """Why the candidate may not be served any more, or will not go to production; empty for no reason."""
    started = rollout.started
    address = started.candidate.address
    marks = [stage for stage in line.stages_of(address) if stage in ("deprecated", "archived")]
    if marks:
        return f"the candidate was {marks[0]}"
    try:
        accepted_adapter(artifacts, address, started.line)
    except StoreUnavailable:
        raise
    except UserError as error:
        return error.what
    for each in read_proposals(artifacts.store, started.line):
        refused = each.state in ("declined", "withdrawn") and each.proposal.at >= started.at
        if refused and each.answer is not None and each.proposal.adapter == started.candidate:
            return f"{each.answer.actor} has {each.answer.kind} its promotion: {each.answer.reason}"
    return ""
