"""Jobs: what tenants ask for over HTTP. A job becomes a dataset version, a recipe and a submission of both."""

import logging
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from ft_assets.api.datasets import add_dataset
from ft_assets.api.defaults import Orchestrator, store_or_default
from ft_assets.api.files import fetch_file
from ft_assets.api.finetunes import submit
from ft_assets.api.job_remedies import remedy_for_job
from ft_assets.api.job_states import JobState, job_state, may_be_resumed, submission_of
from ft_assets.api.stopping import cancel, pause, resume
from ft_assets.api.submissions import works
from ft_assets.control.jobs.create import create_job as record_job
from ft_assets.control.jobs.evaluation import suites_of_job
from ft_assets.control.jobs.recipe import METHOD_OF, offered, recipe_of_job
from ft_assets.control.planning.estimated import Estimate
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry.adding import look_at_file
from ft_assets.control.registry.first_try import name_of
from ft_assets.control.registry.register import register_read
from ft_assets.control.submissions.user_keys import find_by_key
from ft_assets.control.submissions.works import Work
from ft_assets.records import jobs
from ft_assets.records.jobs import Job, SettledJob
from ft_assets.records.submissions import find_outcome
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.settings.dataset.row_reading import policy_of
from ft_assets.settings.models import ModelsFile, load_models, models_path
from ft_assets.settings.recipe.base_ref import FolderPath, parse_base
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_assets.workers.base_models.lock import lock_folder
from ft_resources.attempts import Attempt
from ft_resources.errors import (
    BadBase,
    BadData,
    CorruptArtifact,
    DatabaseUnavailable,
    Misconfigured,
    StoreUnavailable,
    UserError,
)
from ft_resources.launchers.base import Launcher
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)
Settings = TypeVar("Settings")


@dataclass(frozen=True, kw_only=True)
class JobWork:
    """The work of a job in order, and each step of its training so far."""

    works: tuple[Work, ...] = ()
    steps: tuple[dict[str, Any], ...] = ()


def offered_models() -> ModelsFile:
    """What jobs may name as their model. Raises Misconfigured for a file that cannot be read."""
    return configured(None, load_models)


def create_job(
    tenant: str,
    asked: Mapping[str, Any],
    *,
    actor: str,
    key: str = "",
    store: Store | None = None,
    models: ModelsFile | None = None,
) -> tuple[Job, bool]:
    """Record a tenant's request for a model; ``settle_job`` does the rest. The second value is whether it is new.

    ``asked`` are fields of ``Job``. Asking again with the same ``key``, or without one with the same content within
    five minutes, gives the first job.

    Raises UserError for what can be seen at once to be wrong (BadRecipe for hyperparameters, NotFound for files and
    models), and KeyTaken for a key that was used for something else. Nothing is recorded then.
    """
    store = store_or_default(store, create=True)
    return record_job(store, models or offered_models(), tenant, asked, actor=actor, key=key)


def settle_job(
    job: Job,
    *,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    models: ModelsFile | None = None,
    orchestrator: Orchestrator | None = None,
    launcher: Launcher | None = None,
) -> SettledJob:
    """Turn a job into recipe, dataset version and submission. Doing it again changes nothing, and where several do it,
    or somebody cancels meanwhile, the first word counts.

    What is wrong with it is part of the result. Raises StoreUnavailable, DatabaseUnavailable and Misconfigured, and the
    job stays open.
    """
    store = store_or_default(store)
    settled = jobs.find_settled(store, job)
    if settled is None:
        settled = jobs.settle(store, job, _settled(store, job, tenants, models, orchestrator))
    made = find_by_key(store, job.tenant, _key(job))
    if made is not None and made.id != settled.submission and find_outcome(store, made) is None:
        # It was cancelled, or refused by another server, in the meantime.
        who = settled.cancelled_by or job.actor
        cancel(made.id, store=store, actor=who, orchestrator=orchestrator, launcher=launcher)
    # A process died before it could delete the marker.
    store.delete(job.marker)
    return settled


def load_settling() -> None:
    """Import what ``settle_job`` needs of curation and planning: a second of CPU that would keep requests waiting."""
    for module in ("ft_assets.control.registry.rows_apart", "ft_assets.control.planning.ahead"):
        import_module(module)


def give_up(job: Job, *, store: Store | None = None) -> SettledJob:
    """Record that a job could not be prepared because of the platform."""
    said = "The platform could not prepare this job. Its operator's log says why."
    return jobs.settle(store_or_default(store), job, SettledJob(error=said, at=time.time()))


def _settled(
    store: Store,
    job: Job,
    tenants: TenantsFile | None,
    models: ModelsFile | None,
    orchestrator: Orchestrator | None,
) -> SettledJob:
    """The submission that the job becomes, or its error."""
    tenants, models = configured(tenants, load_tenants), models or offered_models()
    blamed = "model"
    walls: tuple[str, ...] = ()
    seconds: float | None = None
    try:
        before = _before(store, job)
        recipe = before.recipe if before else job.recipe or recipe_of(store, job, tenants, models)
        _require_base(store, job, recipe)
        blamed = "training_file"
        dataset = before.dataset if before else dataset_of(store, job, tenants, orchestrator)
        blamed = ""
        made = submit(
            dataset,
            recipe,
            max_gpu_hours=job.max_gpu_hours,
            gates=job.gates,
            key=_key(job),
            origin="api",
            store=store,
            tenants=tenants,
            actor=job.actor,
        )
        asked, walls, seconds = made.submission, made.walls, _expected(made.estimate)
    except (StoreUnavailable, DatabaseUnavailable, CorruptArtifact):
        # Temporary, and nothing that the tenant could change.
        raise
    except UserError as error:
        if (asked_before := find_by_key(store, job.tenant, _key(job))) is None:
            return _wrong(error, error.where if error.where in _PARAMS else blamed)
        # Another server settled it first, and its file has been deleted since.
        asked = asked_before
    return SettledJob(
        submission=asked.id,
        dataset=asked.dataset,
        recipe=asked.recipe,
        walls=walls,
        seconds=seconds,
        at=time.time(),
    )


def _require_base(store: Store, job: Job, recipe: str) -> None:
    """Raise BadBase where the job asked for other files of its model's base than there are."""
    if job.base and (now := get_recipe(store, recipe).lock.digest) != job.base:
        raise BadBase(
            f"its files are others by now: {job.model}@sha256:{now}",
            where="model",
            remedy="Name this one, or the model without a digest.",
        )


def _expected(estimate: Estimate) -> float | None:
    """How long a training is expected to take, in seconds."""
    if estimate.seconds is None and estimate.rough_seconds is not None:
        return estimate.rough_seconds.expected
    return estimate.seconds


def configured(given: Settings | None, load: Callable[[], Settings]) -> Settings:
    """The given one, else what ``load`` reads. Raises Misconfigured where that cannot be read."""
    try:
        return load() if given is None else given
    except UserError as error:
        raise Misconfigured(error.what, where=error.where, remedy=error.remedy) from error


def _key(job: Job) -> str:
    return f"job-{job.id}" + (f"-{job.resumed}" if job.resumed else "")


def _before(store: Store, job: Job) -> SettledJob | None:
    """The settled job from before it was resumed, if it was settled."""
    for resumed in range(job.resumed - 1, -1, -1):
        found = jobs.find_settled(store, job.model_copy(update={"resumed": resumed}))
        if found is not None and found.submission:
            return found
    return None


def unsettled_jobs(*, store: Store | None = None, older_than_s: float = 0.0) -> list[Job]:
    """Jobs of all tenants that wait to be settled, as those of a server that died do."""
    store, now = store_or_default(store), time.time()
    found = []
    for tenant, job_id in jobs.unsettled_jobs(store):
        try:
            job = jobs.find_job(store, tenant, job_id)
        except CorruptArtifact as error:
            # One damaged record must not keep the others waiting.
            _LOG.warning("job ftjob-%s cannot be read: %s", job_id, error)
            continue
        if job is not None and now - job.created_at >= older_than_s:
            found.append(jobs.resumed_job(store, job))
    return found


def job_ids(tenant: str, *, after: str = "", store: Store | None = None) -> Iterator[str]:
    """Ids of a tenant's jobs, the newest first; those older than the job ``after`` where it is given."""
    return jobs.job_ids(store_or_default(store), tenant, after)


def job_work(state: JobState, *, store: Store | None = None) -> JobWork:
    """The work of a job so far, with the steps of its training."""
    store = store_or_default(store)
    if state.settled is None or not state.settled.submission:
        return JobWork()
    found = works(submission_of(store, state.job.tenant, state.settled), store=store)
    training = next((work for work in found if work.asset == "checkpoint" and not work.trial and work.attempt), None)
    steps = Attempt(store, training.address, training.attempt).steps() if training and training.address else []
    return JobWork(works=found, steps=tuple(steps))


def cancel_job(
    tenant: str,
    job_id: str,
    *,
    actor: str,
    store: Store | None = None,
    orchestrator: Orchestrator | None = None,
    launcher: Launcher | None = None,
) -> JobState:
    """Cancel a job in any phase. Raises NotFound, and UserError for one that has ended."""
    store = store_or_default(store)
    state = job_state(tenant, job_id, store=store, launcher=launcher)
    if state.settled is None:
        settled = jobs.settle(store, state.job, SettledJob(cancelled_by=actor, at=time.time()))
        state = JobState(job=state.job, settled=settled)
    if state.settled is not None and state.settled.submission:
        cancel(state.settled.submission, store=store, actor=actor, orchestrator=orchestrator, launcher=launcher)
        return job_state(tenant, job_id, store=store, launcher=launcher)
    if state.settled is not None and state.settled.error:
        raise UserError("it has ended already: failed", where=f"job ftjob-{job_id}")
    return state


def pause_job(
    tenant: str,
    job_id: str,
    *,
    actor: str,
    store: Store | None = None,
    orchestrator: Orchestrator | None = None,
    launcher: Launcher | None = None,
) -> JobState:
    """Pause a job; its training saves first. Raises NotFound, and UserError for one that has no submission yet."""
    store = store_or_default(store)
    submission = _require_submission(job_state(tenant, job_id, store=store, launcher=launcher))
    pause(submission, store=store, actor=actor, orchestrator=orchestrator, launcher=launcher)
    return job_state(tenant, job_id, store=store, launcher=launcher)


def resume_job(
    tenant: str, job_id: str, *, actor: str, store: Store | None = None, launcher: Launcher | None = None
) -> JobState:
    """Resume a paused job, or one that failed or was cancelled, whose training goes on from its last save: such a job
    has to be settled again. Raises as ``pause_job``, and UserError for a job that ended otherwise."""
    store = store_or_default(store)
    state = job_state(tenant, job_id, store=store, launcher=launcher)
    if may_be_resumed(state):
        return JobState(job=jobs.resume(store, state.job, actor=actor, at=time.time()))
    resume(_require_submission(state), store=store, actor=actor)
    return job_state(tenant, job_id, store=store, launcher=launcher)


_PARAMS = {"training_file", "validation_file", "hyperparameters", "suffix", "model"}


def recipe_of(store: Store, job: Job, tenants: TenantsFile, models: ModelsFile) -> str:
    """Register the recipe that a job gets from its model; returns its key."""
    model, where, beside = offered(models, job.model), f"model {job.model}", models_path().resolve().parent
    base, locked = parse_base(model.base), ""
    if isinstance(base, FolderPath):
        # The folder's content may change: then equal jobs get different recipes.
        locked = lock_folder(beside / base.path.expanduser(), where, template_given=True).source
    recipe = recipe_of_job(job, model, locked, suites=suites_of_job(store, job, model))
    return register_read(store, recipe, where, actor=job.actor, tenants=tenants, beside=beside, of_model=job.model).key


def dataset_of(store: Store, job: Job, tenants: TenantsFile, orchestrator: Orchestrator | None = None) -> str:
    """The key of the job's dataset version, to which its files are added."""
    if job.dataset:
        return job.dataset
    with tempfile.TemporaryDirectory(prefix="ft-job-") as scratch:

        def fetched(file_id: str, folder: str) -> list[Path]:
            return [fetch_file(job.tenant, file_id, Path(scratch, folder), store=store)] if file_id else []

        (train,) = fetched(job.training_file, "train")
        name = f"{job.tenant}.{job.suffix or name_of(train.name)}"
        added = add_dataset(
            train,
            name,
            policy=_rows_policy(store, job, train),
            validation=fetched(job.validation_file, "validation"),
            holdout=fetched(job.eval_config.task_eval_file, "holdout"),
            store=store,
            tenants=tenants,
            actor=job.actor,
            orchestrator=orchestrator,
        )
    return str(added.key)


def _rows_policy(store: Store, job: Job, train: Path) -> DatasetPolicy:
    """How the job's rows are read: as it says, else as a first try guesses it of rows that its method learns from.

    Raises BadData for rows of another kind, whose columns leave no doubt of it.
    """
    if job.rows:
        return policy_of(job.rows)
    name = get_recipe(store, job.recipe).recipe.method if job.recipe else METHOD_OF[job.method]
    try:
        kind, policy, guessed = look_at_file(train)
    except BadData:
        # Adding the file says what is wrong, and where.
        return DatasetPolicy()
    if kind == METHODS[name].form.name:
        return policy
    if not guessed and policy == DatasetPolicy():
        raise BadData(
            f"the rows are {kind} data, and {name} learns from {METHODS[name].form.name} data",
            where=train.name,
            remedy=f"Choose a method for {kind} data, or say what each column holds.",
        )
    return DatasetPolicy()


def _wrong(error: UserError, param: str) -> SettledJob:
    where = f"{error.where}: " if error.where and error.where not in _PARAMS else ""
    said = f"{where}{error.what}"
    if remedy := remedy_for_job(error):
        said = f"{said.rstrip('.')}. {remedy}"
    return SettledJob(error=said, param=param, at=time.time())


def _require_submission(state: JobState) -> str:
    if state.settled is None:
        raise UserError(
            "its files are still being checked", where=f"job ftjob-{state.job.id}", remedy="Try again in a minute."
        )
    if not state.settled.submission:
        raise UserError("it has ended already", where=f"job ftjob-{state.job.id}")
    return state.settled.submission
