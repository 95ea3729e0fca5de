"""Fine-tuning jobs: create-only records of what tenants asked for over HTTP, and of what it became. What was submitted
in another way is a job too: its record only names the submission.

<tenant>/jobs/<part>/<id>.json      the request, or the submission's id; see sorted_ids
<tenant>/settled_jobs/<id>.json     the submission that it became, or why it became none
<tenant>/settled_jobs/<id>.<n>.json the same once it was resumed n times after its end
<tenant>/resumed_jobs/<id>.<n>.json that it was resumed so
<tenant>/job_keys/<sha256>.json     which job an idempotency key belongs to
<tenant>/deleted_models/<id>.json   that the job's model was deleted
open_jobs/<tenant>/<id>.json        marker of a job that is not settled; deleted when it is
"""

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, Strict

from ft_assets.records.sorted_ids import id_at, ids_in, is_id, record_path
from ft_assets.records.submissions import Submission, find_submission
from ft_assets.settings.keys import DatasetKey
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import NotFound
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.strict_model import StrictModel, added_field

MethodType = Literal["supervised", "lora", "qlora", "sft", "dpo", "orpo", "kto", "simpo", "cpt"]
# How a ListedJob begins: its only field.
_LISTED = b'{"submission":'


class EvalConfig(StrictModel):
    """Evaluations of a job beyond those of its recipe."""

    run_mmlu_regression: bool = False
    safety_scan: bool = False
    task_eval_file: str = Field(default="", description="Id of a file of rows that are held out, without `file-`.")


class Job(Record):
    """A request for a fine-tuned model, or a submission that was made without one."""

    WHAT: ClassVar[str] = "the record of a job"

    id: str
    tenant: str
    model: str = Field(description="Name in the platform's catalogue of models; with a recipe, its key.")
    training_file: str = Field(description="Id of a file, without `file-`, or key of a dataset version.")
    validation_file: str = ""
    method: MethodType = "supervised"
    hyperparameters: dict[str, Any] = Field(default_factory=dict, description="As given; `auto` or absent: ours.")
    suffix: str = Field(default="", description="Name of the dataset, and so of the line, where it was given.")
    seed: int | None = None
    metadata: dict[str, str] = Field(default_factory=dict)
    recipe: str = Field(default="", description="Key of a registered recipe in place of a model of the catalogue.")
    gates: Annotated[tuple[str, ...], Strict(False)] = Field(default=(), description="Beyond those of the recipe.")
    max_gpu_hours: float | None = None
    rows: dict[str, Any] = added_field({}, description="How its rows are read, as a dataset policy; empty: guessed.")
    eval_config: Annotated[EvalConfig, Strict(False)] = added_field(
        EvalConfig(), description="What it is evaluated on beyond its recipe."
    )
    base: str = added_field("", description="sha256 that the files of the model's base have to have; empty: any.")
    submission: str = added_field("", description="Id of the submission that it is; such a job is stored as ListedJob.")
    resumed: int = added_field(0, description="How often it was resumed after its end, by `resumed_job`; not stored.")
    actor: str
    created_at: float = Field(description="Seconds since the epoch.")

    @property
    def path(self) -> str:
        return job_path(self.tenant, self.id)

    @property
    def settled_path(self) -> str:
        """Where it is recorded what the job became since it was resumed last."""
        return settled_path(self.tenant, self.id, self.resumed)

    @property
    def dataset(self) -> str:
        """The dataset version that the request named instead of a file; "" for a file."""
        return self.training_file if "." in self.training_file else ""

    @property
    def marker(self) -> str:
        return f"open_jobs/{self.tenant}/{self.id}.json"


class ListedJob(Record):
    """A submission that was made without a job, in the place where its job would stand."""

    WHAT: ClassVar[str] = "the record of a job"

    submission: str


class SettledJob(Record):
    """What a job became: a submission, or an error; neither if it was cancelled before."""

    WHAT: ClassVar[str] = "the record of what a job became"

    submission: str = ""
    dataset: str = ""
    recipe: str = ""
    error: str = Field(default="", description="What was wrong, in a sentence.")
    param: str = Field(default="", description="The argument that was wrong.")
    walls: Annotated[tuple[str, ...], Strict(False)] = added_field(
        (), description="What keeps the result out of production, as was known then."
    )
    seconds: float | None = added_field(None, description="What its training was expected to take then, if known.")
    cancelled_by: str = ""
    at: float


class Resumption(Record):
    """Somebody resumed a job that had ended."""

    WHAT: ClassVar[str] = "the record of a job's resumption"

    actor: str
    at: float


class DeletedModel(Record):
    """A tenant deleted the model of a job."""

    WHAT: ClassVar[str] = "the record of a model's deletion"

    actor: str
    at: float

    @staticmethod
    def path(tenant: str, job_id: str) -> str:
        return f"{tenant}/deleted_models/{job_id}.json"

    @staticmethod
    def jobs(store: Store, tenant: str) -> set[str]:
        """Ids of the jobs whose models were deleted."""
        return {name.removesuffix(".json") for name in store.names(f"{tenant}/deleted_models")}


class JobKey(Record):
    """The job that an idempotency key, or a body that was just sent, belongs to."""

    WHAT: ClassVar[str] = "the record of an idempotency key"

    job: str
    body: str = Field(description="sha256 of the request.")


def get_job(store: Store, tenant: str, job_id: str) -> Job:
    """The job. Raises NotFound, also for one of another tenant."""
    found = find_job(store, tenant, job_id) if is_id(job_id) else None
    if found is None:
        raise NotFound(f"there is no job ftjob-{job_id}", where="job", remedy="List jobs to see their ids.")
    return found


def find_job(store: Store, tenant: str, job_id: str) -> Job | None:
    """The job of a valid id."""
    path = job_path(tenant, job_id)
    try:
        data = store.get(path)
    except FileNotFoundError:
        return None
    if data.startswith(_LISTED):
        found = find_submission(store, tenant, ListedJob.parse(data, path).submission)
        # A process may have died before it recorded the submission, or another one was before it.
        return _job_of(found) if found is not None and _id_of(found) == job_id else None
    return Job.parse(data, path)


def list_submission(store: Store, submission: Submission) -> bool:
    """Let a submission that no job became stand among the jobs; whether it did not before. Called before it is
    recorded."""
    return ListedJob(submission=submission.id).create(store, job_path(submission.tenant, _id_of(submission)))


def _id_of(submission: Submission) -> str:
    return id_at(datetime.fromisoformat(submission.created_at).timestamp(), submission.id)


def _job_of(submission: Submission) -> Job:
    return Job(
        id=_id_of(submission),
        tenant=submission.tenant,
        model=submission.recipe,
        training_file="",
        suffix=DatasetKey.parse(submission.dataset).name,
        recipe=submission.recipe,
        gates=submission.gates,
        max_gpu_hours=submission.max_gpu_hours,
        submission=submission.id,
        actor=submission.actor,
        created_at=datetime.fromisoformat(submission.created_at).timestamp(),
    )


def job_path(tenant: str, job_id: str) -> str:
    return record_path(f"{tenant}/jobs", job_id)


def find_settled(store: Store, job: Job) -> SettledJob | None:
    """What the job became; None until it is settled."""
    if job.submission:
        found = find_submission(store, job.tenant, job.submission)
        if found is None:
            return None
        return SettledJob(submission=found.id, dataset=found.dataset, recipe=found.recipe, at=job.created_at)
    return SettledJob.find(store, job.settled_path)


def settled_path(tenant: str, job_id: str, resumed: int = 0) -> str:
    return f"{tenant}/settled_jobs/{job_id}{f'.{resumed}' if resumed else ''}.json"


def resumed_job(store: Store, job: Job) -> Job:
    """``job`` with the number of its resumptions."""
    resumed = resumptions(store, job.tenant).get(job.id, 0)
    return job.model_copy(update={"resumed": resumed}) if resumed else job


def resumptions(store: Store, tenant: str) -> dict[str, int]:
    """How often each of a tenant's jobs was resumed after its end, by one listing."""
    found: dict[str, int] = {}
    for name in store.names(f"{tenant}/resumed_jobs"):
        job_id, _, number = name.removesuffix(".json").partition(".")
        found[job_id] = max(found.get(job_id, 0), int(number))
    return found


def resume(store: Store, job: Job, *, actor: str, at: float) -> Job:
    """Open an ended job again: it waits to be settled once more. Of two who do so at once, one does."""
    again = job.model_copy(update={"resumed": job.resumed + 1})
    # Marker first, as for a new job.
    store.put_json(again.marker, {"created_at": at})
    path = f"{job.tenant}/resumed_jobs/{job.id}.{again.resumed}.json"
    Resumption(actor=actor, at=at).create(store, path)
    return again


def key_path(tenant: str, key: str) -> str:
    # A key may be any text; its digest is a valid name in every store.
    return f"{tenant}/job_keys/{sha256_bytes(key.encode())}.json"


def settle(store: Store, job: Job, settled: SettledJob) -> SettledJob:
    """Record what the job became; the first record is final."""
    first = settled.create_or_get(store, job.settled_path)
    store.delete(job.marker)
    return first


def job_ids(store: Store, tenant: str, after: str = "") -> Iterator[str]:
    """Ids of a tenant's jobs, the newest first; those older than the job ``after`` where it is given."""
    return ids_in(store, f"{tenant}/jobs", after)


def unsettled_jobs(store: Store) -> list[tuple[str, str]]:
    """Tenant and id of every job that waits to be settled."""
    return [
        (tenant, name.removesuffix(".json"))
        for tenant in store.folders("open_jobs")
        for name in store.names(f"open_jobs/{tenant}")
    ]
