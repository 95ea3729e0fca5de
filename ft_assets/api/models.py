"""Models that jobs made: deleted by name. An adapter is deleted with the last name that leads to it."""

import time

from ft_assets.api.deletion import delete, is_deleted
from ft_assets.api.job_states import JobState, job_state
from ft_assets.api.jobs import job_ids
from ft_assets.records.jobs import DeletedModel
from ft_resources.store import Store


def model_is_deleted(state: JobState, *, store: Store) -> bool:
    """Whether what a job made was deleted, under the job's name or as an adapter."""
    if state.outcome is None or not state.outcome.adapter:
        return False
    path = DeletedModel.path(state.job.tenant, state.job.id)
    return DeletedModel.find(store, path) is not None or is_deleted(state.outcome.adapter, store=store)


def delete_model(state: JobState, *, name: str, actor: str, store: Store) -> None:
    """Delete what a job made. Jobs that ask for the same get one adapter, which goes with the last of their models."""
    assert state.outcome is not None
    tenant, adapter = state.job.tenant, state.outcome.adapter
    DeletedModel(actor=actor, at=time.time()).create(store, DeletedModel.path(tenant, state.job.id))
    for job_id in job_ids(tenant, store=store):
        other = job_state(tenant, job_id, store=store)
        if other.outcome and other.outcome.adapter == adapter and not model_is_deleted(other, store=store):
            return
    delete([adapter], reason=f"deleted as {name}", store=store, actor=actor)
