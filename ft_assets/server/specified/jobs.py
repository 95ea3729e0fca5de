"""``/v1/fine-tuning/jobs`` and ``/v1/jobs`` as specified: the jobs of OpenAI's dialect, asked for and shown in other
words."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Header
from pydantic import Field, StrictBool

from ft_assets import api
from ft_assets.api import Identity, JobFigures, JobState
from ft_assets.records.sorted_ids import is_id
from ft_assets.server.answers.base import Page, answered
from ft_assets.server.answers.specified_jobs import SpecifiedJob
from ft_assets.server.context import Context, Ctx, Member, Viewer
from ft_assets.server.files import PREFIX as FILE
from ft_assets.server.job_bodies import Hyperparameters, said
from ft_assets.server.jobs import page_of_jobs, why_failed
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.names import JOB, model_name, uploaded
from ft_assets.server.pages import After, Limit
from ft_assets.server.specified.datasets import version_named
from ft_assets.server.specified.strict import KNOWN_QUERY, Given, told_as
from ft_resources.errors import BadData, NotFound, UserError

router = APIRouter(prefix="/v1", route_class=KeyFirst, dependencies=[KNOWN_QUERY])
_ADDRESS = "/fine-tuning/jobs"
# Of a submission's states, beside those that its phase decides.
_STATUS = {
    "queued": "queued",
    "held": "queued",
    "preparing": "provisioning",
    "evaluating": "evaluating",
    "preempted": "preempted",
    "stopped": "preempted",
    "paused": "preempted",
    "accepted": "succeeded",
    "ungated": "succeeded",
    "rejected": "failed",
    "failed": "failed",
    "cancelled": "cancelled",
}
_RESUMED = ("failed", "cancelled", "preempted")

_Id = Annotated[str, Field(min_length=1, max_length=200)]
# Our own keys have a NUL, so that none of a user's can be equal; a header has none.
_Key = Annotated[str, Field(max_length=255, pattern=r"^[^\x00]*$")]
_Header = Annotated[str, Header(max_length=255)]


class EvalConfig(Given):
    """Evaluations beyond those of the model's recipe."""

    run_mmlu_regression: StrictBool = Field(default=False, description="No worse than the base on questions of MMLU.")
    task_eval_file: _Id | None = Field(default=None, description="An uploaded file whose rows are held out.")
    safety_scan: StrictBool = Field(default=False, description="Harmful prompts are refused, harmless ones are not.")


class CreateJob(Given):
    """A request to fine-tune. Members that are left out are as in the model's recipe."""

    base_model: _Id = Field(description="A name of `GET /v1/models`, or `NAME@sha256:…` of its files.")
    training_file: _Id = Field(description="Id of a dataset, or of an uploaded file, which becomes one.")
    validation_file: _Id | None = Field(default=None, description="Id of an uploaded file, beside one for training.")
    method: Literal["lora", "qlora", "sft", "dpo", "orpo", "kto", "simpo", "cpt"] | None = Field(
        default=None, description="`sft` trains all weights; `lora` and `qlora` adapters, as do the others by default."
    )
    hyperparameters: Hyperparameters | None = None
    eval_config: EvalConfig = EvalConfig()
    idempotency_key: _Key = Field(default="", description="The same key is the same job. Or send Idempotency-Key.")


class ShortJob(Given):
    """The short way to ask for a job."""

    base_model: _Id
    dataset_id: _Id
    hyperparams: Hyperparameters | None = None


@router.post(_ADDRESS, responses=answered(SpecifiedJob))
def create_specified_job(
    body: CreateJob, context: Ctx, caller: Member, idempotency_key: _Header = ""
) -> dict[str, Any]:
    """Ask for a fine-tuned model. The answer comes at once; the files are looked at beside it."""
    if idempotency_key and body.idempotency_key not in ("", idempotency_key):
        raise UserError(
            "it differs from the header Idempotency-Key", where="idempotency_key", remedy="Send one of the two."
        )
    asked = {"method": body.method} if body.method else {}
    evaluated = body.eval_config.model_dump(exclude_defaults=True)
    if body.eval_config.task_eval_file:
        evaluated["task_eval_file"] = _file_of(body.eval_config.task_eval_file, "eval_config.task_eval_file")
    with told_as({"model": "base_model", "dataset": "training_file", "Idempotency-Key": "idempotency_key"}):
        fields = {
            **_base(body.base_model),
            "training_file": _rows(body.training_file, context, caller),
            "validation_file": _file_of(body.validation_file or "", "validation_file"),
            "hyperparameters": said(body.hyperparameters),
            "eval_config": evaluated,
            **asked,
        }
        return _created(fields, context, caller, body.idempotency_key or idempotency_key)


@router.post("/jobs", responses=answered(SpecifiedJob))
def create_short_job(body: ShortJob, context: Ctx, caller: Member, idempotency_key: _Header = "") -> dict[str, Any]:
    """Ask for a fine-tuned model by base, dataset and hyperparameters alone."""
    with told_as(
        {
            "model": "base_model",
            "dataset": "dataset_id",
            "training_file": "dataset_id",
            "hyperparameters": "hyperparams",
        }
    ):
        fields = {
            **_base(body.base_model),
            "training_file": _rows(body.dataset_id, context, caller),
            "hyperparameters": said(body.hyperparams),
        }
        return _created(fields, context, caller, idempotency_key)


def _file_of(named: str, member: str) -> str:
    """The part of a file's id that a job keeps. Raises NotFound for what is none, such as a dataset's."""
    name = named.removeprefix(FILE)
    if name and not (named.startswith(FILE) or is_id(name)):
        raise NotFound(
            f"there is no file {named!r}", where=member, remedy="Send the id of a file of POST /v1/files, file-…."
        )
    return name


@router.get(_ADDRESS, responses=answered(Page[SpecifiedJob]))
def list_specified_jobs(context: Ctx, caller: Viewer, after: After = "", limit: Limit = 20) -> dict[str, Any]:
    """The tenant's jobs, the newest first, however they were asked for."""
    return page_of_jobs(context, caller.tenant, after=after, limit=limit, shown=job_object, id_in="job_id")


@router.get("/jobs/{job_id}", responses=answered(SpecifiedJob))
@router.get(f"{_ADDRESS}/{{job_id}}", responses=answered(SpecifiedJob))
def retrieve_specified_job(job_id: str, context: Ctx, caller: Viewer) -> dict[str, Any]:
    return job_object(_state(context, caller, job_id), context)


@router.post(f"{_ADDRESS}/{{job_id}}/cancel", responses=answered(SpecifiedJob))
def cancel_specified_job(job_id: str, context: Ctx, caller: Member) -> dict[str, Any]:
    """Cancel a job in any phase."""
    state = api.cancel_job(
        caller.tenant,
        job_id.removeprefix(JOB),
        actor=caller.actor,
        store=context.store,
        orchestrator=context.orchestrator,
        launcher=context.launcher,
    )
    return job_object(state, context)


@router.post(f"{_ADDRESS}/{{job_id}}/resume", responses=answered(SpecifiedJob))
def resume_specified_job(job_id: str, context: Ctx, caller: Member) -> dict[str, Any]:
    """Let a failed, cancelled or preempted job go on from its last checkpoint."""
    state = _state(context, caller, job_id)
    status = status_of(state)
    if status not in _RESUMED:
        raise UserError(
            f"it is {status}; a job that is {', '.join(_RESUMED[:-1])} or {_RESUMED[-1]} can be resumed",
            where=f"job {job_id}",
            remedy="Create another job to train again." if status == "succeeded" else "Let it go on, or cancel it.",
        )
    if status == "failed" and not api.may_be_resumed(state):
        if state.settled and state.settled.submission and state.outcome is None:
            raise UserError("its end is being recorded", where=f"job {job_id}", remedy="Try again in a minute.")
        raise UserError(
            f"its end is final: {why_failed(state)['message']}",
            where=f"job {job_id}",
            remedy="Create another job, with other files or settings.",
        )
    state = api.resume_job(
        caller.tenant, job_id.removeprefix(JOB), actor=caller.actor, store=context.store, launcher=context.launcher
    )
    if state.settled is None:
        context.settle(state.job)
    return job_object(state, context)


def status_of(state: JobState, figures: JobFigures | None = None) -> str:
    """The specification's word for how a job stands."""
    if state.settled is None:
        return "queued"
    if state.status is None:
        return "cancelled" if state.settled.cancelled_by else "failed"
    if figures is not None and figures.saving:
        return "checkpointing"
    if state.status.state in _STATUS:
        return _STATUS[state.status.state]
    if state.status.phase == "writing":
        return "checkpointing"
    # Before its first step a training fetches and loads what it needs.
    return "provisioning" if state.status.steps is None else "running"


def job_object(state: JobState, context: Context) -> dict[str, Any]:
    """The specification's answer about a job."""
    job, known = state.job, api.figures_of_job(state, store=context.store)
    status = status_of(state, known)
    digest = f"@sha256:{known.base}" if known.base else ""
    return {
        "job_id": f"{JOB}{job.id}",
        "object": "job",
        "status": status,
        "detail": state.status.detail if state.status else "",
        "error": why_failed(state) if status == "failed" else None,
        "created_at": int(job.created_at),
        "estimated_start": _seconds(known.starts_at),
        "base_model": f"{job.model}{digest}",
        "training_file": f"{FILE}{job.training_file}" if uploaded(job) else job.dataset or _version(state) or "",
        "training_file_version": _version(state),
        "validation_file": _file(job.validation_file),
        "method": known.method or (job.method if job.method != "supervised" else None),
        "hyperparameters": job.hyperparameters,
        "eval_config": {
            "run_mmlu_regression": job.eval_config.run_mmlu_regression,
            "task_eval_file": _file(job.eval_config.task_eval_file),
            "safety_scan": job.eval_config.safety_scan,
        },
        "step": known.step,
        "steps": state.status.steps if state.status and state.status.asset == "checkpoint" else None,
        "loss": known.loss,
        "grad_norm": known.grad_norm,
        "tokens_per_sec": known.tokens_per_s,
        "estimated_completion": _seconds(known.ends_at),
        "checkpoint_path": known.checkpoint,
        "cost": known.cost,
        "currency": known.currency,
        "gpu_hours": known.gpu_hours,
        "fine_tuned_model": model_name(state) or None,
    }


def _file(file_id: str) -> str | None:
    return f"{FILE}{file_id}" if file_id else None


def _version(state: JobState) -> str | None:
    return (state.settled.dataset if state.settled else "") or None


def _seconds(moment: float | None) -> int | None:
    return None if moment is None else int(moment)


def _created(fields: Mapping[str, Any], context: Context, caller: Identity, key: str) -> dict[str, Any]:
    job, created = api.create_job(caller.tenant, fields, actor=caller.actor, key=key, store=context.store)
    if not created:
        return job_object(_state(context, caller, job.id), context)
    context.settle(job)
    return job_object(JobState(job=job), context)


def _base(named: str) -> dict[str, str]:
    name, marked, digest = named.partition("@")
    if marked and not re.fullmatch("sha256:[0-9a-f]{64}", digest):
        raise BadData(
            f"{named!r} does not tell the files of a base",
            where="base_model",
            remedy=f"Write {name}, or {name}@sha256: and the 64 digits that a job of it answers.",
        )
    return {"model": name, "base": digest.removeprefix("sha256:")}


def _rows(named: str, context: Context, caller: Identity) -> str:
    """The part of a file's or a dataset's id that a job keeps. Raises NotFound."""
    name = named.removeprefix(FILE)
    return name if named.startswith(FILE) or is_id(name) else version_named(named, context, caller)


def _state(context: Context, caller: Identity, job_id: str) -> JobState:
    return api.job_state(caller.tenant, job_id.removeprefix(JOB), store=context.store, launcher=context.launcher)
