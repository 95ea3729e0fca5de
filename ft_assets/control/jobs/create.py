"""Record a tenant's HTTP request for a job, once for repeated requests."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from ft_assets.control.jobs.evaluation import suites_of_job
from ft_assets.control.jobs.recipe import offered, recipe_of_job
from ft_assets.control.submissions.submit import check_maximum
from ft_assets.records import jobs
from ft_assets.records.files import get_file
from ft_assets.records.jobs import Job, JobKey
from ft_assets.records.names import DATASET, RECIPE
from ft_assets.records.sorted_ids import new_id
from ft_assets.settings.dataset.row_reading import policy_of
from ft_assets.settings.keys import DatasetKey, RecipeKey, check_part
from ft_assets.settings.models import ModelsFile
from ft_resources.canonical import digest
from ft_resources.errors import BadData, KeyTaken, NotFound, UserError
from ft_resources.store import Store

# A client that got no answer sends the same body again, without a key.
_SAME_BODY_S = 300.0


def create_job(
    store: Store, models: ModelsFile, tenant: str, asked: Mapping[str, Any], *, actor: str, key: str = ""
) -> tuple[Job, bool]:
    """See ``api.create_job``."""
    now = time.time()
    job = Job(id=new_id(now), tenant=tenant, actor=actor, created_at=now, **asked)
    # Without defaults, so that a key still means the same request after ``Job`` gets another field.
    body = digest(job.model_dump(mode="json", exclude={"id", "created_at", "actor"}, exclude_defaults=True))
    # A client waits, and a bucket answers several concurrent requests as fast as one.
    with ThreadPoolExecutor(1) as beside:
        checked = beside.submit(_check, store, job, models)
        if sent := _asked_before(store, tenant, key, body) if key else _just_sent(store, tenant, body, now):
            return sent, False
        checked.result()
    mine = JobKey(job=job.id, body=body)
    with ThreadPoolExecutor(1) as beside:
        # Marker first: a marker without a record is ignored, but a job without a marker would wait for ever.
        marked = beside.submit(store.put_json, job.marker, {"created_at": now})
        owner = mine.create_or_get(store, jobs.key_path(tenant, key or _window(body, now)))
        marked.result()
    # A job with a new id cannot be settled yet.
    settled = None if owner == mine else jobs.find_settled(store, job.model_copy(update={"id": owner.job}))
    if settled is not None and not key:
        # The window's first job was cancelled, or failed: this is another one.
        owner, settled = mine, None
    if owner != mine:
        store.delete(job.marker)
    if key:
        _require_same(owner, body)
    if owner != mine:
        job = job.model_copy(update={"id": owner.job})
        if settled is None:
            store.put_json(job.marker, {"created_at": now})
    created = job.create(store, job.path)
    return (job, True) if created else (jobs.get_job(store, tenant, job.id), False)


def planned_job(store: Store, models: ModelsFile, tenant: str, asked: Mapping[str, Any], *, actor: str) -> Job:
    """What ``create_job`` would record. Raises UserError as it does."""
    now = time.time()
    job = Job(id=new_id(now), tenant=tenant, actor=actor, created_at=now, **asked)
    _check(store, job, models)
    return job


def _check(store: Store, job: Job, models: ModelsFile) -> None:
    """Raise UserError for an invalid request, as far as that shows without its rows."""
    files = {
        "training_file": "" if job.dataset else job.training_file,
        "validation_file": job.validation_file,
        "eval_config.task_eval_file": job.eval_config.task_eval_file,
    }
    for param, file_id in files.items():
        if file_id or (param == "training_file" and not job.dataset):
            _require_trainable(store, job.tenant, file_id, param)
    if job.dataset:
        _require_dataset(store, job)
    if job.suffix:
        check_part(job.suffix, "suffix")
    policy_of(job.rows)
    check_maximum(job.max_gpu_hours)
    if job.recipe:
        _require_recipe(store, job)
    else:
        model = offered(models, job.model)
        recipe_of_job(job, model, suites=suites_of_job(store, job, model))


def _require_trainable(store: Store, tenant: str, file_id: str, param: str) -> None:
    try:
        found = get_file(store, tenant, file_id, now=time.time())
    except NotFound as error:
        raise NotFound(error.what, where=param, remedy=error.remedy) from None
    if found.purpose != "fine-tune":
        raise BadData(
            f"file-{file_id} was uploaded with the purpose {found.purpose}",
            where=param,
            remedy="Upload it with purpose fine-tune.",
        )


def _require_dataset(store: Store, job: Job) -> None:
    """Raise NotFound for a dataset version that the tenant does not have, and BadData for what belongs to new ones."""
    try:
        own = DatasetKey.parse(job.dataset).tenant == job.tenant
    except UserError:
        own = False
    if not own or not DATASET.exists(store, job.dataset):
        raise NotFound(
            f"there is no file or dataset {job.dataset!r}",
            where="training_file",
            remedy="List files and datasets to see their ids.",
        )
    told = {
        "validation_file": job.validation_file,
        "eval_config.task_eval_file": job.eval_config.task_eval_file,
        "suffix": job.suffix,
        "rows": job.rows,
    }
    for param, value in told.items():
        if value:
            raise BadData(
                f"{job.dataset} is a dataset version, which has this already",
                where=param,
                remedy="Leave it out, or name the uploaded file as training_file.",
            )


def _require_recipe(store: Store, job: Job) -> None:
    """Raise NotFound for a recipe that does not exist, or belongs to another tenant."""
    missing = NotFound(f"there is no recipe {job.recipe!r}", where="recipe", remedy="Name a registered recipe's key.")
    try:
        key = RecipeKey.parse(job.recipe)
    except UserError:
        raise missing from None
    if key.tenant not in ("", job.tenant) or not RECIPE.exists(store, job.recipe):
        raise missing


def _just_sent(store: Store, tenant: str, body: str, now: float) -> Job | None:
    """The job with the same content that was requested without a key in the last minutes."""
    paths = [jobs.key_path(tenant, _window(body, then)) for then in (now, now - _SAME_BODY_S)]
    with ThreadPoolExecutor(len(paths)) as readers:
        owners = list(readers.map(partial(JobKey.find, store), paths))
    for owner in owners:
        job = jobs.find_job(store, tenant, owner.job) if owner else None
        if job is None or now - job.created_at >= _SAME_BODY_S:
            continue
        settled = jobs.find_settled(store, job)
        # A repeated request after a cancellation or an error means: try again.
        if settled is None or settled.submission:
            return job
    return None


def _asked_before(store: Store, tenant: str, key: str, body: str) -> Job | None:
    """The job of an idempotency key, whether or not its files still exist. Raises KeyTaken."""
    owner = JobKey.find(store, jobs.key_path(tenant, key))
    if owner is None:
        return None
    _require_same(owner, body)
    return jobs.find_job(store, tenant, owner.job)


def _require_same(owner: JobKey, body: str) -> None:
    if owner.body != body:
        raise KeyTaken(
            "this idempotency key was used for another request",
            where="Idempotency-Key",
            remedy=f"Repeat that request, which is job ftjob-{owner.job}, or choose another key.",
        )


def _window(body: str, at: float) -> str:
    """The key of a request without one. It has a NUL, so no user's key can be equal."""
    return f"\0{body} {int(at // _SAME_BODY_S)}"
