"""Tells when submissions of a tier wait longer than it promises, and when they do no more."""

import time
from collections.abc import Callable
from datetime import datetime

import dagster as dg

from ft_assets.notices.queue import Wait, record_waits
from ft_assets.submissions.record import Submission, open_submissions
from ft_assets.submissions.status import State, read_works, status_of
from ft_assets.submissions.waiting import Explains, reason_of
from ft_assets.tenants import load_tenants
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.errors import UserError
from ft_resources.kubernetes.api import ApiRefusal
from ft_resources.store import Store
from ft_sensors.pace import at_most

_TICK_S = 30.0
_ASK_S = 45.0
"""A cluster is asked why something waits until so long after a tick's begin."""


@dg.sensor(minimum_interval_seconds=at_most(60), default_status=dg.DefaultSensorStatus.RUNNING)
def queue_sensor(
    context: dg.SensorEvaluationContext, store: StoreResource, launcher: LauncherResource
) -> dg.SkipReason:
    """Look at what waits in tiers with `max_wait_minutes`; a breach and its end are each told once."""
    began, problems, silent = time.monotonic(), list[str](), list[str]()
    try:
        tenants = load_tenants()
        limits = {name: tier.max_wait_minutes for name, tier in tenants.tiers.items() if tier.max_wait_minutes}
        waits: dict[str, list[Wait]] = {name: [] for name in limits}
        waiting: dict[str, Submission] = {}
        whole = True
        for submission in open_submissions(store.store, problems=problems) if limits else ():
            if time.monotonic() - began > _TICK_S:
                whole = False
                break
            tier = tenants.tier_name_of(submission.tenant)
            if tier in limits and submission.driver != "caller" and (wait := _wait(store.store, submission, problems)):
                waits[tier].append(wait)
                waiting[submission.id] = submission
        why = _explainer(store.store, waiting, launcher, began + _ASK_S, silent)
        said = []
        for tier, limit in limits.items():
            broken = any(wait.seconds > 60 * limit for wait in waits[tier])
            # What was not looked at may still be waiting, so it is no time to say that all is well.
            if (whole and not problems) or broken:
                found = record_waits(store.store, tier, limit, waits[tier], why)
                said.append(f"{tier}: {len(waits[tier])} wait{f', {found.state}' if found else ''}")
    except UserError as error:
        return dg.SkipReason(f"queues cannot be looked at: {error}")
    for problem in (*problems, *silent):
        context.log.warning(problem)
    return dg.SkipReason("; ".join([*said, *problems]) or "no tier has max_wait_minutes")


def _explainer(
    store: Store, waiting: dict[str, Submission], launcher: LauncherResource, until: float, problems: list[str]
) -> Callable[[str], str]:
    """Tells why a submission waits, where the launcher knows; what it cannot tell goes to ``problems``."""

    def why(submission: str) -> str:
        try:
            place = launcher.launcher
            if not isinstance(place, Explains) or time.monotonic() > until:
                return ""
            return reason_of(store, waiting[submission], place)
        except (UserError, ApiRefusal) as error:
            problems.append(f"{submission}: why it waits cannot be told: {error}")
            return ""

    return why


def _wait(store: Store, submission: Submission, problems: list[str]) -> Wait | None:
    """How long nothing has run for the submission; None where something does, or a person is waited for."""
    try:
        if status_of(store, submission).state not in (State.QUEUED, State.PREEMPTED):
            return None
        signs = [float(work.progress.get("at") or 0.0) for work in read_works(store, submission)]
    except UserError as error:
        problems.append(f"{submission.id}: {error.what}")
        return None
    since = max([datetime.fromisoformat(submission.created_at).timestamp(), *signs])
    return Wait(submission=submission.id, seconds=max(0.0, time.time() - since))
