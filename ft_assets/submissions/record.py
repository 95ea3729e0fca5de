"""Submissions: the create-only records of what users asked for, and of how each one ended."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ft_assets.base_bumps.carries import find_carry, note_training
from ft_assets.evals.suites import suites_of
from ft_assets.keys import DatasetKey, RecipeKey, check_pair
from ft_assets.metering.allowed import require_allowed, restricted
from ft_assets.notices.due import mark_due
from ft_assets.recipes.register import get_recipe
from ft_assets.recipes.tightening import tighten
from ft_assets.retention.retired import require_not_retired
from ft_assets.submissions.own_keys import claim_key, require_key_free
from ft_assets.sweeps.refuse import refuse_trial
from ft_assets.tenants import load_tenants
from ft_resources.canonical import canonical_json, digest
from ft_resources.errors import CorruptArtifact, UserError
from ft_resources.remembered import Remembered
from ft_resources.store import Store

Origin = Literal["ui", "cli", "python", "sensor", "backfill"]
# Train the pair, or judge the weights it had on the base before (docs/promotion.md).
Mode = Literal["train", "carry"]
# The key that a first wish by hand gets: with it a sensor never repeats what somebody asked for already.
FIRST_WISH = "ask-1"


# Read once in a process's life; sensors look at the open ones every few seconds.
_OPEN: Remembered["Submission"] = Remembered(10_000)


class SubmissionStatus(StrEnum):
    """How a submission ended. A rejected candidate is a result, not a failure."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    FAILED = "failed"
    CANCELLED = "cancelled"


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Submission(_Record):
    """A wish: fine-tune this recipe's base on this dataset version."""

    id: str = Field(description="16 hex characters; equal wishes with equal keys have equal ids.")
    dataset: str = Field(description="Dataset key, tenant.name.vN.")
    recipe: str = Field(description="Recipe key, name.vN or tenant.name.vN.")
    mode: Mode = Field(default="train", description="What to do with the pair.")
    actor: str = Field(description="Who asked.")
    origin: Origin = Field(description="Where it was asked.")
    idempotency_key: str = Field(description="Asking again with the same key is the same submission.")
    driver: Literal["sensor", "caller", "run"] = Field(
        description="Who launches its runs: the sensor, the process that asked, or the run it was recorded by."
    )
    run_id: str = Field(default="", description="The Dagster run that recorded it, where driver is `run`.")
    max_gpu_hours: float | None = Field(
        default=None, gt=0.0, description="Most GPU-hours its training may be expected to take; null for no limit."
    )
    gates: tuple[str, ...] = Field(
        default=(), description="What it asks for beyond the recipe's gates, such as `exact_match > 0.6`."
    )
    created_at: str = Field(description="UTC, ISO 8601.")
    warnings: tuple[str, ...] = Field(default=(), description="What admission said of it, such as hours of overage.")

    @property
    def tenant(self) -> str:
        return DatasetKey.parse(self.dataset).tenant

    @property
    def pair(self) -> str:
        """The pair partition's key."""
        return f"{self.dataset}|{self.recipe}"

    @property
    def path(self) -> str:
        return f"{self.tenant}/submissions/{self.id}.json"

    @property
    def marker(self) -> str:
        """Where it is listed while it is open."""
        return f"open_submissions/{self.tenant}/{self.id}.json"


class SubmissionOutcome(_Record):
    """How a submission ended, and the adapter's address or the reason why there is none."""

    status: SubmissionStatus
    adapter: str = ""
    reason: str = ""
    suggestions: tuple[str, ...] = Field(
        default=(), description="Of a rejected candidate: what to try, from its curves and the tenant's past runs."
    )
    at: str


def submit(
    store: Store,
    *,
    dataset: str,
    recipe: str,
    actor: str,
    origin: Origin,
    driver: Literal["sensor", "caller", "run"] = "sensor",
    idempotency_key: str = "",
    run_id: str = "",
    max_gpu_hours: float | None = None,
    gates: Sequence[str] = (),
    mode: Mode = "train",
) -> tuple[Submission, bool]:
    """Record a submission; the second value is False where an equal one was there already, with its own maximum.

    Asking for a training ends a carry of the pair. Raises UserError for keys that were never added, for pairs and
    maxima that make no sense, for gates that would loosen the recipe's, for a carry of a pair that is not carried, for
    an idempotency key that was given to another wish (KeyConflict), and for what the tenant may not use or has no quota
    left for; nothing is written then.
    """
    check_wish(store, dataset, recipe)
    check_maximum(max_gpu_hours)
    check_gates(store, recipe, gates)
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
        created_at=_now(),
    )
    existing = find_submission(store, submission.tenant, submission.id)
    if existing is not None:
        return existing, False
    require_key_free(store, submission)
    if mode == "carry" and find_carry(store, dataset, recipe) is None:
        raise UserError(
            f"{submission.pair} is not carried from anything",
            where="mode",
            remedy="Ask for a training: only adapters whose base moved are carried, until the pair is trained.",
        )
    admitted = admit_submission(store, submission)
    submission = submission.model_copy(update={"warnings": tuple(admitted)})
    # Hours that whoever loses the key in this moment was promised are free again like those of a maker that died.
    claim_key(store, submission)
    if mode == "train":
        note_training(store, dataset, recipe, submission=submission.id, actor=actor)
    # The marker first: a marker without a record is ignored, a record without a marker would never be run.
    store.put_json(submission.marker, {"created_at": submission.created_at})
    created = store.create(submission.path, canonical_json(submission.model_dump(mode="json")))
    return (submission, True) if created else (Submission(**store.get_json(submission.path)), False)


def check_admission(store: Store, dataset: str, recipe: str) -> None:
    """Raise NotAllowed or OverQuota where a training of the pair would not be accepted now; nothing is promised."""
    asked = Submission(
        id=submission_id(dataset, recipe, FIRST_WISH),
        dataset=dataset,
        recipe=recipe,
        actor="admission",
        origin="sensor",
        idempotency_key=FIRST_WISH,
        driver="sensor",
        created_at=_now(),
    )
    admit_submission(store, asked, promise=False)


def admit_submission(store: Store, submission: Submission, *, promise: bool = True) -> list[str]:
    """Hold a submission against what its tenant may use; sentences of warning. Raises NotAllowed and OverQuota."""
    if submission.mode == "carry":
        # Nothing is trained for it, and the platform itself asks for its short evaluation.
        return []
    # Estimates stand on the graph's walk, which knows of submissions.
    from ft_assets.submissions.admission import admit_to_quota

    tenants = load_tenants()
    if restricted(tenants, submission.tenant):
        require_allowed(tenants, submission.tenant, get_recipe(store, submission.recipe))
    return admit_to_quota(store, tenants, submission, promise=promise)


def check_wish(store: Store, dataset: str, recipe: str) -> None:
    """Raise UserError for keys that were never added, and for a pair that makes no sense."""
    check_pair(DatasetKey.parse(dataset), RecipeKey.parse(recipe))
    for kind, key in (("dataset", dataset), ("recipe", recipe)):
        if not store.exists(f"names/{kind}/{key}.json"):
            raise UserError(
                f"there is no {kind} {key!r}", where="submission", remedy=f"Add it first: ft {kind} add FILE"
            )
    require_not_retired(store, dataset)
    refuse_trial(store, recipe)


def check_maximum(max_gpu_hours: float | None) -> None:
    """Raise UserError for a maximum that lets nothing through, or everything."""
    if max_gpu_hours is not None and not 0 < max_gpu_hours < float("inf"):
        raise UserError(
            f"{max_gpu_hours} GPU-hours are no maximum",
            where="max_gpu_hours",
            remedy="Give a number above 0, or none for no limit.",
        )


def check_gates(store: Store, recipe: str, gates: Sequence[str]) -> None:
    """Raise UserError for gates that cannot be read, loosen the recipe's, or are about what it does not measure."""
    if not gates:
        return
    wanted = get_recipe(store, recipe).recipe
    safety, general = (suites_of(store, wanted.evaluation.suites, role) for role in ("safety", "suite"))
    tightened = tighten(wanted.gates, gates, ["perplexity", *wanted.evaluation.holdout.metrics, *general])
    if tightened.safety is not None and not safety:
        raise UserError(
            f"safety is asked for, and recipe {recipe} names no safety suite to count refusals on",
            where="gates of the submission",
            remedy="Use a recipe with a suite of kind: safety in evaluation.suites, or ask for no safety.",
        )
    if tightened.judge is not None and wanted.evaluation.judge is None:
        raise UserError(
            f"a judge's preference is asked for, and recipe {recipe} names no judge",
            where="gates of the submission",
            remedy="Use a recipe with evaluation.judge, or ask for no judge.",
        )


def submission_id(
    dataset: str, recipe: str, idempotency_key: str, gates: Sequence[str] = (), mode: Mode = "train"
) -> str:
    """The id of the submission of a pair under a key, 16 hex characters; other gates are another wish."""
    wish: dict[str, Any] = {"dataset": dataset, "recipe": recipe, "mode": mode, "key": idempotency_key}
    return digest({**wish, "gates": sorted(gates)} if gates else wish)[:16]


def resubmit_key(store: Store, dataset: str, recipe: str, gates: Sequence[str] = ()) -> str:
    """The idempotency key for asking (again) for a pair: that of the open submission, or the first unused one.

    Equal wishes join the one that is under way; one that has ended does not stand in the way of asking again.
    """
    tenant = DatasetKey.parse(dataset).tenant
    number = 1
    while True:
        key = f"ask-{number}"
        submission = find_submission(store, tenant, submission_id(dataset, recipe, key, gates))
        if submission is None or find_outcome(store, submission) is None:
            return key
        number += 1


def find_submission(store: Store, tenant: str, submission_id: str) -> Submission | None:
    """The submission with this id, or None. Raises CorruptArtifact for a record that cannot be read."""
    path = f"{tenant}/submissions/{submission_id}.json"
    raw = store.find_json(path)
    if raw is None:
        return None
    try:
        return Submission.model_validate(raw)
    except ValidationError as error:
        raise CorruptArtifact(
            f"the submission cannot be read ({error.error_count()} problems)",
            where=path,
            remedy="Restore the object from the bucket's versions or a backup.",
        ) from error


def find_outcome(store: Store, submission: Submission) -> SubmissionOutcome | None:
    """How the submission ended, or None while it is open."""
    raw = store.find_json(f"{submission.tenant}/submissions/{submission.id}/outcome.json")
    return SubmissionOutcome(**raw) if raw else None


def finish(
    store: Store,
    submission: Submission,
    status: SubmissionStatus,
    *,
    adapter: str = "",
    reason: str = "",
    suggestions: Sequence[str] = (),
) -> SubmissionOutcome:
    """Record the end of a submission; the first caller's word stands."""
    outcome = SubmissionOutcome(
        status=status, adapter=adapter, reason=reason, suggestions=tuple(suggestions), at=_now()
    )
    path = f"{submission.tenant}/submissions/{submission.id}/outcome.json"
    mark_due(store, "submission", submission.tenant, path)
    if not store.create(path, canonical_json(outcome.model_dump(mode="json"))):
        outcome = SubmissionOutcome(**store.get_json(path))
    store.delete(submission.marker)
    return outcome


def open_submissions(store: Store, *, after: str = "", problems: list[str] | None = None) -> Iterator[Submission]:
    """Submissions that have not ended, in order of their markers; only those whose ``marker`` comes after ``after``.

    A record that cannot be read is added to ``problems``, where given, and the rest goes on.
    """
    for path in sorted(entry.path for entry in store.entries("open_submissions")):
        if path <= after:
            continue
        _, tenant, name = path.split("/")
        try:
            found = partial(find_submission, store, tenant, name.removesuffix(".json"))
            submission = _OPEN.get(store, path, found)
            ended = submission is not None and find_outcome(store, submission) is not None
        except UserError as error:
            if problems is None:
                raise
            problems.append(f"{path}: {error.what}")
            continue
        if ended:
            # The one who finished it died before the marker was gone.
            store.delete(path)
        elif submission is not None:
            yield submission


def all_submissions(store: Store, tenant: str) -> list[Submission]:
    """Every submission of a tenant, newest first."""
    records = [
        Submission(**store.get_json(entry.path))
        for entry in store.entries(f"{tenant}/submissions")
        if entry.path.count("/") == 2
    ]
    return sorted(records, key=lambda record: record.created_at, reverse=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
