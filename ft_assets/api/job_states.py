"""The states of jobs. Permanent records are read once per process, and those for a page of jobs concurrently."""

from collections.abc import Container, Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from ft_assets.api.defaults import store_or_default
from ft_assets.api.job_remedies import without_policy
from ft_assets.api.submissions import standing, works
from ft_assets.control.submissions.status import Status, status_of
from ft_assets.records import jobs
from ft_assets.records.jobs import Job, SettledJob
from ft_assets.records.names import is_name
from ft_assets.records.submissions import (
    Submission,
    SubmissionOutcome,
    SubmissionStatus,
    find_outcome,
    is_submission,
    known_submission,
)
from ft_resources.errors import UserError
from ft_resources.launchers.base import Launcher
from ft_resources.remembered import Remembered
from ft_resources.store import Store
from ft_resources.store_glance import Glance, Look, NotingGlance


@dataclass(frozen=True, kw_only=True)
class JobState:
    """A job and its state.

    Args:
        job: the request.
        settled: what it became; None while its files are checked.
        status: that of its submission, if it became one.
        outcome: how the submission ended, if it has.
    """

    job: Job
    settled: SettledJob | None = None
    status: Status | None = None
    outcome: SubmissionOutcome | None = None


_JOBS: Remembered[Job] = Remembered(100_000)
_SETTLED: Remembered[SettledJob] = Remembered(100_000)
_ENDED: Remembered[JobState] = Remembered(100_000)
_OUTCOMES: Remembered[SubmissionOutcome] = Remembered(100_000)
_TOKENS: Remembered[int] = Remembered(100_000)
# Where the state of an open job was read at the last request for it.
_LOOKS: Remembered[frozenset[Look]] = Remembered(10_000)


def job_state(tenant: str, job_id: str, *, store: Store | None = None, launcher: Launcher | None = None) -> JobState:
    """A tenant's job and its state. Raises NotFound."""
    store = store_or_default(store)
    job, settled = _settled_job(store, tenant, job_id)
    found = _state(store, job, settled, launcher)
    if not may_be_resumed(found) or not (again := jobs.resumed_job(store, job)).resumed:
        return found
    return _state(store, again, _settled(store, again), launcher)


def may_be_resumed(state: JobState) -> bool:
    """Whether the job has ended so that it can go on from its last checkpoint."""
    if state.outcome is not None:
        return state.outcome.status in (SubmissionStatus.FAILED, SubmissionStatus.CANCELLED)
    # A request that could not be carried out at first never can.
    return state.settled is not None and bool(state.settled.cancelled_by or (state.job.resumed and state.settled.error))


def _state(store: Store, job: Job, settled: SettledJob | None, launcher: Launcher | None) -> JobState:
    tenant, path = job.tenant, job.settled_path
    if settled is None or not settled.submission:
        return JobState(job=job, settled=settled)
    if (ended := _ENDED.known(store, path)) is not None:
        return ended
    submission = submission_of(store, tenant, settled)
    if isinstance(store, Glance):
        store = store.noting()
    outcome = _outcome(store, path, submission)
    if outcome is not None:
        found = JobState(job=job, settled=settled, status=_for_job(status_of(store, submission)), outcome=outcome)
        return _ENDED.keep(store, path, found)
    # The launcher may know why it waits.
    status = standing(submission, store=store, launcher=launcher)
    if isinstance(store, NotingGlance):
        _LOOKS.keep(store, path, frozenset(store.looks))
    return JobState(job=job, settled=settled, status=_for_job(status))


def ended_job(
    tenant: str, job_id: str, *, resumed: int, store: Store, still_open: Container[str] = ()
) -> JobState | None:
    """``job_state`` without a status, of a job that was ``resumed`` so often and whose submission has ended; None for
    another, without a request where the submission is known to be ``still_open``. It costs none once it has ended.
    Raises NotFound."""
    job, settled = _settled_job(store, tenant, job_id)
    if resumed:
        job = job.model_copy(update={"resumed": resumed})
        settled = _settled(store, job)
    if settled is None or not settled.submission or settled.submission in still_open:
        return None
    outcome = _outcome(store, job.settled_path, submission_of(store, tenant, settled))
    return JobState(job=job, settled=settled, outcome=outcome) if outcome else None


def glance_at_jobs(store: Store) -> Glance:
    """The store as one page of jobs sees it."""
    return Glance(store, lasting=lambda path: is_name(path) or is_submission(path))


def look_ahead(tenant: str, job_ids: Sequence[str], *, store: Glance, readers: Executor) -> bool:
    """Read at once what ``job_state`` is about to read of these jobs, one thing after the other: an open job is
    mostly read where it was read before. Nothing of that is remembered but where it is.

    True if each of them was read before, so that hardly anything is left to read."""
    looks: set[Look] = set()
    known_all = True
    for job_id in job_ids:
        found, known = _looks(store, tenant, job_id)
        looks.update(found)
        known_all = known_all and known
    store.ahead(looks, readers)
    return known_all


def _looks(store: Store, tenant: str, job_id: str) -> tuple[Iterable[Look], bool]:
    """Where the job is read, as far as that is known, and whether that is all."""
    path, settled_path = jobs.job_path(tenant, job_id), jobs.settled_path(tenant, job_id)
    settled = _SETTLED.known(store, settled_path)
    if settled is None:
        known = _JOBS.known(store, path) is not None
        return [("get", each) for each in (path, settled_path)[known:]], False
    if not settled.submission or _ENDED.known(store, settled_path) is not None:
        return (), True
    places = _LOOKS.known(store, settled_path)
    return places or (), places is not None


def trained_tokens(ended: JobState, *, store: Store | None = None) -> int | None:
    """Tokens that the training of an ended job read; None if no training was finished."""
    store = store_or_default(store)
    if ended.settled is None or not ended.settled.submission:
        return None
    submission = submission_of(store, ended.job.tenant, ended.settled)

    def find() -> int | None:
        trainings = (each for each in works(submission, store=store) if each.asset == "checkpoint" and not each.trial)
        return next((each.facts.get("tokens") for each in trainings), None)

    return _TOKENS.get(store, ended.job.settled_path, find)


def submission_of(store: Store, tenant: str, settled: SettledJob) -> Submission:
    """The submission that a job became. Raises UserError if it is gone."""
    found = known_submission(store, tenant, settled.submission)
    if found is None:
        raise UserError("the job's submission is gone", where=f"submission {settled.submission}", remedy="Ask again.")
    return found


def _settled_job(store: Store, tenant: str, job_id: str) -> tuple[Job, SettledJob | None]:
    path = jobs.job_path(tenant, job_id)
    job = _JOBS.known(store, path) or _JOBS.keep(store, path, jobs.get_job(store, tenant, job_id))
    return job, _settled(store, job)


def _settled(store: Store, job: Job) -> SettledJob | None:
    return _SETTLED.get(store, job.settled_path, partial(jobs.find_settled, store, job))


def _outcome(store: Store, path: str, submission: Submission) -> SubmissionOutcome | None:
    return _OUTCOMES.get(store, path, partial(find_outcome, store, submission))


def _for_job(status: Status) -> Status:
    return replace(status, remedy=without_policy(status.remedy))
