"""Notices: list and deliver them, and detect queues that exceed their limits."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from itertools import islice

from ft_assets.api.defaults import store_or_default, tenants_or_default
from ft_assets.api.steps import Step
from ft_assets.control.notices.deliver import tell
from ft_assets.control.notices.event_records import Told, told
from ft_assets.control.notices.queue_alerts import Wait, record_waits
from ft_assets.control.submissions.status import State, status_of
from ft_assets.control.submissions.waiting import reason_of
from ft_assets.control.submissions.works import read_works
from ft_assets.records.due_notices import FOLDER
from ft_assets.records.submissions import Submission, open_submissions
from ft_assets.settings.keys import SHARED, check_part
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import LauncherRefusal, UserError
from ft_resources.launchers.base import Launcher
from ft_resources.notifier import Notifier
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class Notices:
    """The last events of a tenant, newest first, and the number that is still to be sent."""

    told: tuple[Told, ...]
    due: int


def list_notices(tenant: str = "", *, limit: int = 50, store: Store | None = None) -> Notices:
    """Notices about a tenant's work, their recipients, and failures; at most ``limit``. Without ``tenant``: the
    platform's own, those of ``shared``. Raises UserError for an invalid tenant name."""
    store, tenant = store_or_default(store), tenant or SHARED
    found = tuple(islice(told(store, check_part(tenant, "tenant")), limit))
    return Notices(told=found, due=sum(1 for _ in store.entries(f"{FOLDER}/{tenant}")))


def send_notices(*, after: str = "", store: Store | None = None, tenants: TenantsFile | None = None) -> Step:
    """Send what is due to webhooks and by mail, with back-off after failures, beginning beyond ``after``.

    Raises UserError for a tenants file that cannot be read, and where the store refuses.
    """
    done = tell(store_or_default(store), tenants_or_default(tenants), Notifier().send, after=after)
    counts = {"sent": done.sent, "failed": done.failed, "given up": done.given_up, "waiting": done.waiting}
    words = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing to send"
    return Step(
        said="; ".join([f"checked {done.looked} events: {words}", *done.problems]),
        worked=done.sent + done.failed + done.given_up,
        warnings=tuple(done.problems),
        after=done.after,
    )


def watch_queues(
    launcher: Callable[[], Launcher],
    *,
    seconds: float = 30.0,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
) -> Step:
    """Record where submissions of a tier wait longer than its ``max_wait_minutes``, and where they do no more.

    Looks for ``seconds``, and half as long again asks the launcher, which is made then, why the longest wait. Raises
    UserError for a tenants file that cannot be read, and where the store refuses.
    """
    store, tenants, began = store_or_default(store), tenants_or_default(tenants), time.monotonic()
    problems: list[str] = []
    silent: list[str] = []
    limits = {name: tier.max_wait_minutes for name, tier in tenants.tiers.items() if tier.max_wait_minutes}
    waits: dict[str, list[Wait]] = {name: [] for name in limits}
    waiting: dict[str, Submission] = {}
    whole = True
    for submission in open_submissions(store, problems=problems) if limits else ():
        if time.monotonic() - began > seconds:
            whole = False
            break
        tier = tenants.tier_name_of(submission.tenant)
        if tier in limits and submission.driver != "caller" and (wait := _wait(store, submission, problems)):
            waits[tier].append(wait)
            waiting[submission.id] = submission
    why = _explainer(store, waiting, launcher, began + 1.5 * seconds, silent)
    said, changed = [], 0
    for tier, limit in limits.items():
        broken = any(wait.seconds > 60 * limit for wait in waits[tier])
        # Unread submissions may still be waiting, so the end of a breach cannot be recorded now.
        if (whole and not problems) or broken:
            found = record_waits(store, tier, limit, waits[tier], why)
            changed += found is not None
            said.append(f"{tier}: {len(waits[tier])} wait{f', {found.state}' if found else ''}")
    text = "; ".join([*said, *problems]) or "no tier has max_wait_minutes"
    return Step(said=text, worked=changed, warnings=(*problems, *silent))


def _explainer(
    store: Store, waiting: dict[str, Submission], launcher: Callable[[], Launcher], until: float, problems: list[str]
) -> Callable[[str], str]:
    """Explains why a submission waits, if the launcher knows; failures are added to ``problems``."""

    def why(submission: str) -> str:
        try:
            explains = launcher().explains
            if explains is None or time.monotonic() > until:
                return ""
            return reason_of(store, waiting[submission], explains)
        except (UserError, LauncherRefusal) as error:
            problems.append(f"{submission}: the reason for its wait cannot be read: {error}")
            return ""

    return why


def _wait(store: Store, submission: Submission, problems: list[str]) -> Wait | None:
    """How long nothing has run for the submission; None if something runs, or if it waits for a person."""
    try:
        if status_of(store, submission).state not in (State.QUEUED, State.PREEMPTED):
            return None
        signs = [float(work.progress.get("at") or 0.0) for work in read_works(store, submission)]
    except UserError as error:
        problems.append(f"{submission.id}: {error.what}")
        return None
    since = max([datetime.fromisoformat(submission.created_at).timestamp(), *signs])
    return Wait(submission=submission.id, seconds=max(0.0, time.time() - since))
