"""Models of jobs: list and delete them by name. An adapter is deleted with the last name that refers to it."""

import logging
import time
from collections.abc import Callable, Container, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from ft_assets.api.deletion import delete, is_deleted
from ft_assets.api.job_states import JobState, ended_job
from ft_assets.api.jobs import job_ids
from ft_assets.records.jobs import DeletedModel, resumptions
from ft_assets.records.submissions import open_ids
from ft_assets.records.tombstones import Subject, find_tombstone, log_folders
from ft_resources.artifacts import Address
from ft_resources.errors import DatabaseUnavailable, Misconfigured, StoreUnavailable, UserError
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)
# Jobs that are read concurrently: each takes a few short requests in sequence.
_READERS = 16


def made_models(tenant: str, *, store: Store) -> Iterator[JobState]:
    """The tenant's jobs that made a model which is not deleted, the newest first, each without its status. One whose
    records are damaged hides no other. One listing says which jobs are open."""
    return _all_made(tenant, store, still_open=open_ids(store, tenant))


def _all_made(tenant: str, store: Store, still_open: Container[str] = ()) -> Iterator[JobState]:
    deleted_jobs, logs, resumed = (
        DeletedModel.jobs(store, tenant),
        log_folders(store, tenant),
        resumptions(store, tenant),
    )

    def made(job_id: str) -> JobState | None:
        find = partial(ended_job, tenant, job_id, resumed=resumed.get(job_id, 0), store=store, still_open=still_open)
        return None if job_id in deleted_jobs else _made(job_id, find, store, logs)

    with ThreadPoolExecutor(_READERS) as readers:
        yield from filter(None, readers.map(made, job_ids(tenant, store=store)))


def model_is_deleted(state: JobState, *, store: Store) -> bool:
    """Whether a job's model was deleted, under the job's name or as an adapter."""
    if state.outcome is None or not state.outcome.adapter:
        return False
    path = DeletedModel.path(state.job.tenant, state.job.id)
    return DeletedModel.find(store, path) is not None or is_deleted(state.outcome.adapter, store=store)


def delete_model(state: JobState, *, name: str, actor: str, store: Store) -> None:
    """Delete a job's model. Equal jobs share one adapter, which is deleted with the last of their models."""
    assert state.outcome is not None
    tenant, adapter = state.job.tenant, state.outcome.adapter
    DeletedModel(actor=actor, at=time.time()).create(store, DeletedModel.path(tenant, state.job.id))
    # Each open job is read: a process that died may have left one among them that has ended with this adapter.
    if all(each.outcome is None or each.outcome.adapter != adapter for each in _all_made(tenant, store)):
        delete([adapter], reason=f"deleted as {name}", store=store, actor=actor)


def _made(job_id: str, find: Callable[[], JobState | None], store: Store, logs: set[str]) -> JobState | None:
    """What ``find`` gives of a job that made an adapter without a tombstone; ``logs`` are where the tenant's can be."""
    try:
        state = find()
        if state is None or state.outcome is None or not state.outcome.adapter:
            return None
        subject = Subject.adapter(Address.parse(state.outcome.adapter))
        return None if subject.folder in logs and find_tombstone(store, subject) else state
    except (StoreUnavailable, DatabaseUnavailable, Misconfigured):
        raise
    except UserError as error:
        _LOG.warning("the model of ftjob-%s is not listed: %s", job_id, error)
        return None
