"""Orphans: workers on a cluster that no run waits for, and attempts without a worker."""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ft_assets.api.defaults import actor_or_user, store_or_default
from ft_assets.api.steps import Step
from ft_assets.control.metering.abandoned import close_abandoned
from ft_assets.control.submissions.sharing import needed_by_others
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt
from ft_resources.errors import CorruptArtifact, LauncherRefusal
from ft_resources.execution import Execution
from ft_resources.jobs import Job
from ft_resources.kubernetes.orphans import Orphan, Standing, note_unwanted, plan_orphans
from ft_resources.launchers.base import Jobs, Launcher
from ft_resources.outcomes import POLICIES, Refund
from ft_resources.store import Store

# A tick has 60 s, and 2,000 Jobs may be queued: one after the other, their records take a bucket about as long.
_READERS = 16


@dataclass(frozen=True, kw_only=True)
class OrphansSettled(Step):
    """``unwanted``: by Job uid, since when no submission needs it, in seconds since the epoch."""

    unwanted: Mapping[str, float]


def settle_orphans(
    launcher: Launcher,
    *,
    busy: Collection[str] = (),
    unwanted: Mapping[str, float] | None = None,
    most: int = 20,
    store: Store | None = None,
    actor: str = "",
) -> OrphansSettled:
    """Collect, close, end or stop Jobs that nobody waits for (``kubernetes/orphans.py``), and close attempts without a
    worker (``metering/abandoned.py``); at most ``most`` of each.

    Args:
        busy: partition keys of runs that are under way.
        unwanted: what the last call returned.

    Raises UserError and LauncherRefusal where the cluster cannot be looked at. A refusal of one tenant's namespace is a
    warning: the others' Jobs are still to be seen to.
    """
    store, now, actor = store_or_default(store), time.time(), actor_or_user(actor)
    said, since = "workers run on this machine, so there are no Jobs", dict[str, float]()
    jobs, log, warnings = list[Job](), list[str](), list[str]()
    if launcher.remote is not None:
        jobs = launcher.remote.jobs(store.url)
        with ThreadPoolExecutor(_READERS) as readers:
            standings = list(readers.map(lambda job: stand(store, job, busy), jobs))
        since = note_unwanted(standings, unwanted or {}, now)
        aged = [replace(each, unwanted_s=now - since.get(each.job.uid, now)) for each in standings]
        orphans = plan_orphans(aged, now)
        for orphan in orphans[:most]:
            what = f"{orphan.deed}: attempt {orphan.attempt} at {orphan.address}"
            try:
                settle(store, launcher, launcher.remote, orphan, actor=actor)
                log.append(what)
            except LauncherRefusal as refusal:
                warnings.append(f"{what} is refused ({refusal})")
        said = f"checked {len(standings)} Jobs: {len(orphans)} that no run waits for"
    alive = {(job.address, job.attempt) for job in jobs}
    closed = close_abandoned(Execution(store=store, launcher=launcher), alive, busy, now, most=most)
    log += [f"closed {path}: it has no worker" for path in closed]
    text = "; ".join([said, *([f"{len(closed)} attempts without a worker closed"] if closed else [])])
    return OrphansSettled(said=text, worked=len(log), log=tuple(log), warnings=tuple(warnings), unwanted=since)


def stand(store: Store, job: Job, busy: Collection[str]) -> Standing:
    """A Job and what the store records about it."""
    if not job.address:
        return Standing(job=job, closed_at=None, collected=False, wanted=True)
    attempt = Attempt(store, Address.parse(job.address), job.attempt)
    closed_at, collected = _closed_at(attempt), False
    if closed_at is not None:
        try:
            collected = attempt.place() is not None
        except CorruptArtifact:
            # Its collection is recorded already, and never overwritten.
            collected = True
    wanted = closed_at is not None or job.label in busy or _needed(store, attempt.address)
    return Standing(job=job, closed_at=closed_at, collected=collected, wanted=wanted)


def settle(store: Store, launcher: Launcher, remote: Jobs, orphan: Orphan, *, actor: str = "") -> None:
    """Carry out the plan; each action may be repeated."""
    attempt = Attempt(store, Address.parse(orphan.address), orphan.attempt)
    if orphan.deed == "collect":
        launcher.clean_up(attempt)
    elif orphan.deed == "close":
        # Determines how it ended; the Job still exists, so the cluster knows.
        launcher.state(attempt)
        Execution(store=store, launcher=launcher).bury(attempt)
    elif orphan.deed == "end":
        remote.discard(attempt, _refund(attempt))
    else:
        attempt.request_stop(actor_or_user(actor))
        remote.discard(attempt, "none")
        attempt.record_stopped()


def _closed_at(attempt: Attempt) -> float | None:
    """When its end was recorded. An unreadable record counts as long ago, as no run waits for more."""
    try:
        return attempt.closed_at()
    except CorruptArtifact:
        return 0.0


def _refund(attempt: Attempt) -> Refund:
    """The refund, by how it ended; none if the worker's record of its end cannot be read."""
    try:
        ending = attempt.ending()
    except CorruptArtifact:
        return "none"
    return POLICIES[ending.outcome].refund if ending else "none"


def _needed(store: Store, address: Address) -> bool:
    """Whether an open submission needs the artifact; True if unknown."""
    try:
        return needed_by_others(store, address, None)
    except KeyError:
        return True
