"""Submitting a training: the request is checked, compared with the tenant's limits, and recorded."""

from collections.abc import Sequence
from datetime import UTC, datetime

from ft_assets.control.recipes.allowed import require_allowed, restricted
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.submissions.admission import admit_to_quota
from ft_assets.control.submissions.user_keys import claim_key, require_key_free
from ft_assets.records.carries import find_carry, note_training
from ft_assets.records.jobs import list_submission
from ft_assets.records.names import DATASET, RECIPE
from ft_assets.records.retired_datasets import require_not_retired
from ft_assets.records.retired_recipes import require_recipe_not_retired
from ft_assets.records.submissions import FIRST_WISH, Driver, Mode, Origin, Submission, find_submission, submission_id
from ft_assets.records.trial_only import refuse_trial
from ft_assets.settings.keys import DatasetKey, RecipeKey, check_pair
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.tightening import tighten
from ft_assets.settings.tenants import TenantsFile
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.suites.registered import suites_of
from ft_resources.errors import UserError
from ft_resources.store import Store


def submit(
    store: Store,
    tenants: TenantsFile,
    *,
    dataset: str,
    recipe: str,
    actor: str,
    origin: Origin,
    driver: Driver = "sensor",
    idempotency_key: str = "",
    run_id: str = "",
    max_gpu_hours: float | None = None,
    gates: Sequence[str] = (),
    mode: Mode = "train",
) -> tuple[Submission, bool]:
    """Record a submission; if an equal one exists, returns that one, with its own maximum, and False.

    Submitting a training ends a carry of the pair. Raises UserError for unknown keys, for invalid pairs and maxima,
    for gates that would loosen the recipe's, for a carry of a pair that is not carried, for an idempotency key of
    another request (KeyConflict), and if the tenant may not use something or lacks quota. Nothing is written then.
    """
    check_wish(store, dataset, recipe)
    tenants.require_tenant(DatasetKey.parse(dataset).tenant)
    check_maximum(max_gpu_hours)
    if gates:
        check_gates(store, get_recipe(store, recipe).recipe, gates)
    submission = Submission(
        id=submission_id(dataset, recipe, idempotency_key, gates, mode),
        dataset=dataset,
        recipe=recipe,
        mode=mode,
        actor=actor,
        origin=origin,
        idempotency_key=idempotency_key,
        driver=driver,
        run_id=run_id,
        max_gpu_hours=max_gpu_hours,
        gates=tuple(gates),
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    existing = find_submission(store, submission.tenant, submission.id)
    if existing is not None:
        return existing, False
    require_key_free(store, submission)
    if mode == "carry" and find_carry(store, dataset, recipe) is None:
        raise UserError(
            f"{submission.pair} has no carry",
            where="mode",
            remedy="Request a training: only adapters whose base moved are carried, until the pair is trained.",
        )
    admitted = admit_submission(store, tenants, submission)
    submission = submission.model_copy(update={"warnings": tuple(admitted)})
    # If the key is lost to another request here, the reserved hours are released as for a process that died.
    claim_key(store, submission)
    if mode == "train":
        note_training(store, dataset, recipe, submission=submission.id, actor=actor)
    # Marker first: a marker without a record is ignored, but a record without a marker would never be run.
    store.put_json(submission.marker, {"created_at": submission.created_at})
    list_among_jobs(store, submission)
    created = submission.create(store, submission.path)
    return (submission, True) if created else (Submission.get(store, submission.path), False)


def list_among_jobs(store: Store, submission: Submission) -> bool:
    """Let a submission stand among its tenant's jobs; whether it did not before. What is asked for over HTTP has a job
    already, and a carry is the platform's own."""
    return submission.origin != "api" and submission.mode == "train" and list_submission(store, submission)


def check_admission(store: Store, tenants: TenantsFile, dataset: str, recipe: str) -> None:
    """Raise NotAllowed or OverQuota if a training of the pair would not be accepted now; nothing is reserved."""
    asked = Submission(
        id=submission_id(dataset, recipe, FIRST_WISH),
        dataset=dataset,
        recipe=recipe,
        actor="admission",
        origin="sensor",
        idempotency_key=FIRST_WISH,
        driver="sensor",
        created_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    admit_submission(store, tenants, asked, promise=False)


def admit_submission(store: Store, tenants: TenantsFile, submission: Submission, *, promise: bool = True) -> list[str]:
    """Compare a submission with its tenant's limits; returns warnings. Raises NotAllowed and OverQuota."""
    if submission.mode == "carry":
        # A carry trains nothing, and the platform itself requests its short evaluation.
        return []
    if restricted(tenants, submission.tenant):
        require_allowed(tenants, submission.tenant, get_recipe(store, submission.recipe))
    return admit_to_quota(store, tenants, submission, promise=promise)


def check_wish(store: Store, dataset: str, recipe: str) -> None:
    """Raise UserError for unknown keys, for an invalid pair and for a retired recipe."""
    check_pair(DatasetKey.parse(dataset), RecipeKey.parse(recipe))
    check_dataset(store, dataset)
    if not RECIPE.exists(store, recipe):
        raise UserError(f"there is no recipe {recipe!r}", where="submission", remedy="Add it first: ft recipe add FILE")
    refuse_trial(store, recipe)
    require_recipe_not_retired(store, recipe)


def check_dataset(store: Store, dataset: str) -> None:
    """Raise UserError for a dataset version that is unknown or retired."""
    if not DATASET.exists(store, dataset):
        raise UserError(
            f"there is no dataset {dataset!r}", where="submission", remedy="Add it first: ft dataset add FILE"
        )
    require_not_retired(store, dataset)


def check_maximum(max_gpu_hours: float | None) -> None:
    """Raise UserError for a maximum that would refuse or allow everything."""
    if max_gpu_hours is not None and not 0 < max_gpu_hours < float("inf"):
        raise UserError(
            f"a maximum of {max_gpu_hours} GPU-hours is invalid",
            where="max_gpu_hours",
            remedy="Give a number above 0, or none for no limit.",
        )


def check_gates(store: Store, wanted: Recipe, gates: Sequence[str]) -> None:
    """Raise UserError for gates that are malformed, loosen the recipe's, or concern something it does not measure."""
    if not gates:
        return
    safety, general = (suites_of(store, wanted.evaluation.suites, role) for role in ("safety", "suite"))
    tightened = tighten(wanted.gates, gates, ["perplexity", *wanted.evaluation.holdout.metrics, *general])
    assert tightened != NO_GATES, "tighten refuses gates of a submission there"
    if tightened.safety is not None and not safety:
        raise UserError(
            f"a safety gate is requested, and recipe {wanted.key} has no safety suite to measure it on",
            where="gates of the submission",
            remedy="Use a recipe with a suite of kind: safety in evaluation.suites, or leave the safety gate out.",
        )
    if tightened.judge is not None and wanted.evaluation.judge is None:
        raise UserError(
            f"a judge gate is requested, and recipe {wanted.key} has no judge",
            where="gates of the submission",
            remedy="Use a recipe with evaluation.judge, or leave the judge gate out.",
        )
