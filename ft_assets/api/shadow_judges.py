"""Judges of copied requests: asked beside all traffic, a few pairs at each step."""

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.api.steps import Step
from ft_assets.control.rollouts.require_judge import withdrawn
from ft_assets.control.rollouts.rollouts import Rollout, lines_with_rollouts, read_rollouts
from ft_assets.control.rollouts.shadow_judging import at_once, judge_pairs, marks_to_take, pairs_to_judge
from ft_assets.control.rollouts.weights import traffic_of
from ft_assets.records.conversations import Conversation
from ft_assets.records.shadow_verdicts import VerdictLog
from ft_assets.settings.tenants import TenantsFile
from ft_assets.workers.evals.preferences.marks import Marks
from ft_resources.errors import CorruptArtifact
from ft_resources.store import Store

# Two judgements in sequence still end within a tick's minute.
_BEGIN_FOR_S = 15.0


@dataclass(kw_only=True)
class _Asked:
    """A line whose judge is asked in this step; ``waiting`` are the pairs that are left, ``marks`` what is
    taken from their texts."""

    rollout: Rollout
    waiting: list[Conversation]
    marks: Marks


def judge_copies(
    *,
    after: str = "",
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    begin_for_s: float = _BEGIN_FOR_S,
    clock: Callable[[], float] = time.monotonic,
) -> Step:
    """Ask the judges of open rollouts about copied requests, a few of each line in turn.

    A judge that is not reached holds up no other; it is asked again later, and decides nothing meanwhile. Raises
    StoreUnavailable.

    Args:
        after: the line that was asked about last: the next one is first.
        begin_for_s: no judgement begins later than so many seconds after the call, by ``clock``.
    """
    store, tenants, end = store_or_default(store), tenants_or_default(tenants), clock() + begin_for_s
    log, judged = VerdictLog(store, uuid.uuid4().hex[:12]), 0
    warnings: list[str] = []
    names = lines_with_rollouts(store)
    turn = [*(name for name in names if name > after), *(name for name in names if name <= after)]
    lines: list[_Asked] = []
    for name in turn:
        try:
            if (found := _asked(store, tenants, name, warnings)) is not None:
                lines.append(found)
        except CorruptArtifact as error:
            warnings.append(f"{name}: its judge is not asked: {error}")
    while lines and clock() < end:
        asked = lines.pop(0)
        number = at_once(asked.rollout)
        pairs, asked.waiting = asked.waiting[:number], asked.waiting[number:]
        after = asked.rollout.started.line
        hosts = tenants.judge_hosts_of(after.partition(".")[0])
        if trouble := judge_pairs(asked.rollout, hosts, pairs, log, asked.marks):
            warnings.append(f"{after}: {trouble}")
            continue
        judged += len(pairs)
        if asked.waiting:
            lines.append(asked)
    said = f"judged {judged} copied requests"
    return Step(said=said, worked=judged, warnings=tuple(warnings), after=after)


def _asked(store: Store, tenants: TenantsFile, line: str, warnings: list[str]) -> _Asked | None:
    """The line's pairs; None where no judge is to be asked now. Raises CorruptArtifact."""
    rollout = read_rollouts(store, line).open
    judge = rollout.started.plan.judge if rollout is not None else None
    if rollout is None or judge is None or not traffic_of(store, line).shadow:
        return None
    if why := withdrawn(judge, tenants.settings_of(line)):
        warnings.append(f"{line}: its judge is not used: {why}")
        return None
    pairs = pairs_to_judge(store, rollout, datetime.now(UTC))
    return _Asked(rollout=rollout, waiting=pairs, marks=marks_to_take(store, rollout)) if pairs else None
