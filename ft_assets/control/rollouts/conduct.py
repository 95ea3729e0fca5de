"""Carry out the decision about a rollout."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ft_assets.control.lines.auto import ACTOR
from ft_assets.control.lines.promotion import Decision, promote
from ft_assets.control.rollouts.asked import following, needs_second_person
from ft_assets.control.rollouts.look import look
from ft_assets.control.rollouts.rollouts import WHOLE, RolloutRecord, append, read_rollouts
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.tracking import Log

_KINDS = {"advance": "advanced", "completed": "completed", "roll_back": "rolled_back", "cancel": "cancelled"}


@dataclass(frozen=True, kw_only=True)
class Conducted:
    """The result: the new record, None if the rollout waits; ``said`` is why."""

    record: RolloutRecord | None
    said: str


def conduct(
    artifacts: Artifacts,
    line: str,
    *,
    tenants: TenantsFile,
    log: Log,
    tracking: str | None = None,
    now: datetime | None = None,
) -> Conducted | None:
    """Look at the line's open rollout, and do what follows; None where none is open.

    A completion is a promotion by whoever started the rollout, with all its checks. It waits where one refuses it, and
    where the line needs a second person until that one approves; so does a step to a large share. Raises RolloutLost if
    another decision was first, StoreUnavailable and CorruptArtifact.
    """
    now = now or datetime.now(UTC)
    state = read_rollouts(artifacts.store, line)
    if state.open is None:
        return None
    seen = look(artifacts, state.open, now)
    action, reason = seen.verdict.action, seen.verdict.reason
    findings: list[str] = []
    if action == "advance" and needs_second_person(line, state.open.next_step, tenants):
        action = "complete"
        reason = f"the next step of {state.open.next_step} % requires approval by a second person: {reason}"
    if action == "complete" and not tenants.settings_of(line).rollouts.completes:
        said = f"ready for production; the line's settings require a person to promote it: {reason}"
        return Conducted(record=None, said=said)
    if action == "complete":
        started = state.open.started
        decision = Decision(
            actor=started.actor,
            reason=f"rollout {started.rollout}: {reason}",
            waive_incumbent=started.plan.waive_incumbent,
            tenants=tenants,
            made_by=started.plan.made_by,
            tracking=tracking,
            log=log,
        )
        try:
            findings = promote(artifacts, started.candidate.address, "production", decision)[0].findings
        except StoreUnavailable:
            raise
        except UserError as error:
            return Conducted(record=None, said=f"ready for production, but {error.what}")
        action = "completed"
    if action == "wait":
        return Conducted(record=None, said=reason)
    weights = {"advance": state.open.next_step, "completed": WHOLE}
    values: dict[str, Any] = {"kind": _KINDS[action], "weight": weights.get(action, 0), "findings": findings}
    record = following(state, now=now, evidence=seen.evidence, actor=ACTOR, reason=reason, **values)
    return Conducted(record=append(artifacts.store, record), said=reason)
