"""Rollouts: a candidate takes a growing share of a line's traffic, as far as outcomes allow."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from ft_assets.api.addresses import find_address
from ft_assets.api.defaults import actor_or_user, store_or_default, tenants_or_default
from ft_assets.api.own_keys import own_line
from ft_assets.api.steps import Step
from ft_assets.control.lines.promotion import Decision, Log
from ft_assets.control.rollouts import asked, weights
from ft_assets.control.rollouts.asked import Wish
from ft_assets.control.rollouts.automatic import start_automatic
from ft_assets.control.rollouts.conduct import conduct
from ft_assets.control.rollouts.evidence import Evidence
from ft_assets.control.rollouts.judged_copies import JudgedCopies
from ft_assets.control.rollouts.look import look
from ft_assets.control.rollouts.pruning import remove_old
from ft_assets.control.rollouts.require_judge import withdrawn
from ft_assets.control.rollouts.rollouts import (
    RolloutLost,
    RolloutRecord,
    RolloutState,
    lines_with_rollouts,
    read_rollouts,
)
from ft_assets.control.rollouts.weights import Weights
from ft_assets.settings.rollout_settings import MINIMUM, OUTCOMES, STEPS
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class RolloutReport:
    """The state of a line's rollouts.

    Args:
        state: all of them.
        weights: addresses and percents of the line's traffic now.
        shadow: percent of the requests that are copied to the candidate, which then has the weight 0.
        judged: what a judge said of them; None where none is asked.
        evidence: what outcomes say of the open rollout now; empty without one.
        next: the next step of the open rollout, or what it waits for; "" without one.
    """

    state: RolloutState
    weights: list[tuple[str, int]]
    evidence: list[Evidence]
    next: str
    shadow: int = 0
    judged: JudgedCopies | None = None


def start_rollout(
    line: str,
    *,
    reason: str,
    candidate: str = "",
    steps: Sequence[int] = STEPS,
    minimum: int = MINIMUM,
    outcomes: Sequence[str] = OUTCOMES,
    margins: Mapping[str, float] | None = None,
    latency_limit_s: float | None = None,
    shadow: int = 0,
    waive_incumbent: bool = False,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    made_by: str = "",
    log: Log = _LOG,
) -> RolloutRecord:
    """Give a candidate the first share of a line's traffic, or copies of its requests; outcomes decide about the rest.

    Args:
        line: ``tenant.dataset.recipe``; an adapter of it must be in production.
        reason: why; it is recorded.
        candidate: an adapter's address; without it the adapter in staging.
        steps: weights in percent, rising; the last is 100, which is production.
        minimum: outcomes of the candidate of each kind, at each weight.
        outcomes: kinds that count, of thumbs, judge, latency, refusal and format.
        margins: by kind, the loss that is a regression, as a share of outcomes; 0.05 where none is given.
        latency_limit_s: answers within it are good. Without it, what nine of ten of the incumbent's stayed within in
            the last day.
        shadow: percent of the requests that are copied to the candidate first; its answers are sent to nobody.
        waive_incumbent: as ``promote`` takes it.
        made_by: who made the key by which ``actor`` was proved; see ``maker_of``.

    Raises:
        UserError: if a check of a promotion to production refuses it, a rollout is open, nothing is in production, or
            the options are not a valid plan.
        RolloutLost: if somebody else started one at the same moment.
    """
    store, line = store_or_default(store), own_line(line)
    decision = Decision(
        actor=actor_or_user(actor),
        reason=reason,
        tenants=tenants_or_default(tenants),
        waive_incumbent=waive_incumbent,
        made_by=made_by,
        log=log,
    )
    wish = Wish(
        candidate=str(find_address(candidate, store=store)) if candidate else line,
        steps=steps,
        minimum=minimum,
        outcomes=outcomes,
        margins=margins or {},
        latency_limit_s=latency_limit_s,
        shadow=shadow,
    )
    return asked.start(Artifacts(store), line, wish, decision)


def show_rollout(line: str, *, store: Store | None = None, tenants: TenantsFile | None = None) -> RolloutReport:
    """How the rollouts of a line stand, and what outcomes say of the open one. Looking changes nothing, and may be
    done at any time. What cannot be read of outcomes hides nothing else. Raises UserError for what is no line."""
    store, line = store_or_default(store), own_line(line)
    state, traffic = read_rollouts(store, line), weights.traffic_of(store, line)
    evidence, said, judged = [], "", None
    if state.open is not None:
        try:
            seen = look(Artifacts(store), state.open, datetime.now(UTC))
        except CorruptArtifact as error:
            said = f"wait: {error}"
        else:
            evidence, judged = seen.evidence, seen.judged
            said = f"{seen.verdict.action.replace('_', ' ')}: {seen.verdict.reason}"
            judge = state.open.started.plan.judge
            if judged is not None and judge is not None:
                why = withdrawn(judge, tenants_or_default(tenants).settings_of(line))
                judged = judged.model_copy(update={"withdrawn": why})
    divided = list(traffic.weights)
    return RolloutReport(
        state=state, weights=divided, evidence=evidence, next=said, shadow=traffic.shadow, judged=judged
    )


def cancel_rollout(line: str, *, reason: str, store: Store | None = None, actor: str = "") -> RolloutRecord:
    """End a line's open rollout; production has all traffic again. Raises NotFound where none is open, and RolloutLost
    where another decision was first."""
    return asked.cancel(store_or_default(store), own_line(line), actor=actor_or_user(actor), reason=reason)


def weights_of(line: str, *, store: Store | None = None) -> Weights:
    """Addresses of the adapters that share a line's traffic, with percents; empty where none is in production."""
    return weights.weights_of(store_or_default(store), own_line(line))


def choose_adapter(weights_of_line: Weights, user: str) -> str:
    """The address of the adapter that answers ``user``: the same one each time, while the candidate's weight rises."""
    return weights.choose(weights_of_line, user)


def advance_rollouts(
    *,
    after: str = "",
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    log: Log = _LOG,
    show: Callable[[Artifacts, Artifact], object] = lambda artifacts, candidate: None,
) -> Step:
    """Advance every open rollout; once a day, also remove old outcomes.

    Args:
        after: the day on which outcomes were removed last.
        show: called with the candidate of each rollout that ended.

    One line that cannot be read holds up no other. Raises StoreUnavailable.
    """
    store, tenants, now = store_or_default(store), tenants_or_default(tenants), datetime.now(UTC)
    artifacts, told, warnings, going = Artifacts(store), [], [], 0
    waits: list[str] = []
    for line in tenants.lines_with_automatic_rollouts():
        try:
            begun = start_automatic(artifacts, line, tenants=tenants, log=log, now=now)
        except CorruptArtifact as error:
            warnings.append(f"{line}: {error}")
            continue
        except StoreUnavailable:
            raise
        except UserError as error:
            waits.append(f"no rollout started for {line}: {error.what}")
            continue
        if begun is not None:
            told.append(f"{line}: a rollout of {begun.candidate.address} started: {begun.reason}")
    for line in lines_with_rollouts(store):
        try:
            done = conduct(artifacts, line, tenants=tenants, log=log, now=now)
        except (CorruptArtifact, RolloutLost) as error:
            warnings.append(f"{line}: {error}")
            continue
        going += done is not None
        if done is not None and done.record is not None:
            told.append(f"{line}: {done.record.kind.replace('_', ' ')}, {done.record.share}: {done.said}")
            candidate = artifacts.find(Address.parse(done.record.candidate.address))
            if candidate is not None and not done.record.going:
                show(artifacts, candidate)
        elif done is not None:
            waits.append(f"{line} waits: {done.said}")
    today = now.date().isoformat()
    if after != today:
        told.extend(remove_old(store, tenants, now, warnings))
    said = f"checked {going} open rollouts: {len(told)} changes"
    return Step(said=said, worked=len(told), log=(*told, *waits), warnings=tuple(warnings), after=today)
