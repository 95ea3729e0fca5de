"""``/v1/fine_tuning/jobs``: OpenAI's dialect, with ours in extra fields. A job is a submission."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request

from ft_assets import api
from ft_assets.api import Identity, JobState
from ft_assets.server.answers.base import Page, answered
from ft_assets.server.answers.jobs import Checkpoint, Job
from ft_assets.server.context import Context, Ctx, Member, Viewer
from ft_assets.server.job_bodies import CreateJob
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.names import JOB, model_name, uploaded
from ft_assets.server.pages import After, Limit, beyond, page_of
from ft_assets.server.results import result_ids
from ft_resources.errors import NotFound, in_sentences

router = APIRouter(prefix="/v1/fine_tuning/jobs", route_class=KeyFirst)

# Of a submission's states; whatever is under way is running.
_STATUS = {
    "queued": "queued",
    "held": "paused",
    "paused": "paused",
    "stopped": "paused",
    "accepted": "succeeded",
    "ungated": "succeeded",
    "rejected": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
}
ENDED = ("succeeded", "failed", "cancelled")


@router.post("", responses=answered(Job))
def create(
    body: CreateJob,
    context: Ctx,
    caller: Member,
    idempotency_key: Annotated[str, Header(max_length=255)] = "",
) -> dict[str, Any]:
    """Ask for a fine-tuned model. The answer comes at once; the files are looked at beside it."""
    job, created = api.create_job(
        caller.tenant, body.fields(), actor=caller.actor, key=idempotency_key, store=context.store
    )
    if not created:
        return job_object(_state(context, caller, job.id), context)
    context.settle(job)
    return job_object(JobState(job=job), context)


@router.get("", responses=answered(Page[Job]))
def list_jobs(request: Request, context: Ctx, caller: Viewer, after: After = "", limit: Limit = 20) -> dict[str, Any]:
    """The tenant's jobs, the newest first; ``metadata[key]=value`` leaves out the others."""
    wanted = {
        name[len("metadata[") : -1]: value
        for name, value in request.query_params.items()
        if name.startswith("metadata[") and name.endswith("]")
    }
    return page_of_jobs(context, caller.tenant, after=after, limit=limit, metadata=wanted)


@router.get("/{job_id}", responses=answered(Job))
def retrieve(job_id: str, context: Ctx, caller: Viewer) -> dict[str, Any]:
    return job_object(_state(context, caller, job_id), context)


@router.post("/{job_id}/cancel", responses=answered(Job))
def cancel(job_id: str, context: Ctx, caller: Member) -> dict[str, Any]:
    state = api.cancel_job(
        caller.tenant,
        job_id.removeprefix(JOB),
        actor=caller.actor,
        store=context.store,
        orchestrator=context.orchestrator,
        launcher=context.launcher,
    )
    return job_object(state, context)


@router.post("/{job_id}/pause", responses=answered(Job))
def pause(job_id: str, context: Ctx, caller: Member) -> dict[str, Any]:
    state = api.pause_job(
        caller.tenant,
        job_id.removeprefix(JOB),
        actor=caller.actor,
        store=context.store,
        orchestrator=context.orchestrator,
        launcher=context.launcher,
    )
    return job_object(state, context)


@router.post("/{job_id}/resume", responses=answered(Job))
def resume(job_id: str, context: Ctx, caller: Member) -> dict[str, Any]:
    state = api.resume_job(
        caller.tenant, job_id.removeprefix(JOB), actor=caller.actor, store=context.store, launcher=context.launcher
    )
    if state.settled is None:
        context.settle(state.job)
    return job_object(state, context)


@router.get("/{job_id}/checkpoints", responses=answered(Page[Checkpoint]))
def list_checkpoints(job_id: str, context: Ctx, caller: Viewer, after: After = "", limit: Limit = 10) -> dict[str, Any]:
    """The finished training's last step; none before."""
    state = _state(context, caller, job_id)
    found: dict[str, dict[str, Any]] = {}
    job = api.job_work(state, store=context.store)
    rows = {row["step"]: row for row in job.steps}
    for work in job.works:
        if work.asset != "checkpoint" or work.trial or not work.done or not model_name(state):
            continue
        losses = dict(work.facts.get("validation_loss", []))
        step = int(work.facts["steps"])
        # Of the step, as its event has it; the mean is the one that Dagster and MLflow show.
        metrics = {
            "step": step,
            "train_loss": rows.get(step, {}).get("loss"),
            "mean_train_loss": work.facts["train_loss"],
            "valid_loss": losses.get(step),
        }
        found[f"ftckpt-{state.job.id}-{step}"] = {
            "id": f"ftckpt-{state.job.id}-{step}",
            "object": "fine_tuning.job.checkpoint",
            "created_at": int(work.claimed_at),
            "fine_tuned_model_checkpoint": model_name(state),
            "fine_tuning_job_id": f"{JOB}{state.job.id}",
            "step_number": step,
            "metrics": {name: value for name, value in metrics.items() if value is not None},
        }
    known = f"ftckpt-{state.job.id}-"
    return page_of(
        beyond(list(found)), found.get, prefix="", after=after, limit=limit, known=lambda each: each.startswith(known)
    )


def page_of_jobs(
    context: Context,
    tenant: str,
    *,
    after: str,
    limit: int,
    metadata: Mapping[str, str] | None = None,
    shown: Callable[[JobState, Context], dict[str, Any]] | None = None,
    id_in: str = "id",
) -> dict[str, Any]:
    """A page of a tenant's jobs, the newest first, of those that have all of ``metadata``. ``shown`` makes an object
    of each, whose id is in ``id_in``. Raises as ``page_of``."""
    # The jobs of a page share datasets, recipes and bases.
    seen = api.glance_at_jobs(context.store)

    def read(job_id: str) -> dict[str, Any] | None:
        try:
            state = api.job_state(tenant, job_id, store=seen, launcher=context.launcher)
        except NotFound:
            return None
        if any(state.job.metadata.get(key) != value for key, value in (metadata or {}).items()):
            return None
        return (shown or job_object)(state, context)

    def ids(last: str) -> Iterator[str]:
        return api.job_ids(tenant, after=last, store=context.store)

    def ahead(some: Sequence[str], readers: Executor) -> bool:
        return api.look_ahead(tenant, some, store=seen, readers=readers)

    return page_of(ids, read, prefix=JOB, after=after, limit=limit, ahead=ahead, id_in=id_in)


def status_of(state: JobState) -> str:
    """OpenAI's word for how a job stands."""
    if state.settled is None:
        return "validating_files"
    if state.settled.cancelled_by:
        return "cancelled"
    return "failed" if state.status is None else _STATUS.get(state.status.state, "running")


def job_object(state: JobState, context: Context) -> dict[str, Any]:
    """OpenAI's job object; what it has no place for stands under ``ft``."""
    job, status = state.job, status_of(state)
    method = {"type": job.method, job.method: {"hyperparameters": job.hyperparameters}}
    return {
        "id": f"{JOB}{job.id}",
        "object": "fine_tuning.job",
        "created_at": int(job.created_at),
        "finished_at": _finished_at(state) if status in ENDED else None,
        "estimated_finish": _estimated_finish(state) if status == "running" else None,
        "status": status,
        "error": why_failed(state) if status == "failed" else None,
        "model": job.model,
        "fine_tuned_model": model_name(state) or None,
        "organization_id": job.tenant,
        "training_file": f"file-{job.training_file}" if uploaded(job) else job.dataset or _own(state)["dataset"],
        "validation_file": f"file-{job.validation_file}" if job.validation_file else None,
        "hyperparameters": job.hyperparameters,
        "method": method,
        "result_files": result_ids(state),
        "trained_tokens": api.trained_tokens(state, store=context.store) if status == "succeeded" else None,
        "seed": 0 if job.seed is None else job.seed,
        "user_provided_suffix": job.suffix or None,
        "metadata": job.metadata or None,
        "integrations": [],
        "ft": _own(state),
    }


def _own(state: JobState) -> dict[str, Any]:
    settled, status = state.settled, state.status
    return {
        "submission": settled.submission if settled else "",
        "dataset": settled.dataset if settled else "",
        "recipe": settled.recipe if settled else state.job.recipe,
        "state": str(status.state) if status else "",
        "detail": status.detail if status else "",
        "remedy": status.remedy if status else "",
        "step": status.step if status else None,
        "steps": status.steps if status else None,
        "adapter": status.adapter if status else "",
        "suggestions": list(status.suggestions) if status else [],
        "walls": list(settled.walls) if settled else [],
    }


def why_failed(state: JobState) -> dict[str, Any]:
    """The error of a failed job."""
    if state.status is None:
        assert state.settled is not None
        param = state.settled.param or None
        code = {"training_file": "invalid_training_file", "validation_file": "invalid_validation_file"}
        said = in_sentences(state.settled.error)
        return {"code": code.get(param or "", "invalid_request"), "message": said, "param": param}
    if state.status.state == "rejected":
        said = " ".join((state.status.detail, *(f"Try: {each}." for each in state.status.suggestions)))
        return {"code": "gates_rejected", "message": said, "param": None}
    said = in_sentences(state.status.detail, state.status.remedy)
    return {"code": "training_failed", "message": said or "The training failed.", "param": None}


def _finished_at(state: JobState) -> int | None:
    if state.outcome is not None:
        return int(datetime.fromisoformat(state.outcome.at).timestamp())
    return None if state.settled is None else int(state.settled.at)


def _estimated_finish(state: JobState) -> int | None:
    """When the training is expected to end, by its worker's own estimate."""
    status = state.status
    if status is None or status.eta_s is None or status.asset != "checkpoint":
        return None
    return int(datetime.now().timestamp() + status.eta_s)


def _state(context: Context, caller: Identity, job_id: str) -> JobState:
    return api.job_state(caller.tenant, job_id.removeprefix(JOB), store=context.store, launcher=context.launcher)
