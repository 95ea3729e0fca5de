"""Submissions: create-only records of what users requested, and of how each one ended."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from ft_assets.records.due_notices import mark_due
from ft_assets.records.failures import Failure
from ft_assets.settings.keys import DatasetKey
from ft_resources.canonical import digest
from ft_resources.errors import UserError
from ft_resources.records import Record
from ft_resources.remembered import Remembered
from ft_resources.store import Store
from ft_resources.strict_model import added_field
from ft_resources.tracing import record_submission

Origin = Literal["ui", "cli", "python", "api", "sensor", "backfill"]
Driver = Literal["sensor", "caller", "run"]
# Train the pair, or evaluate the weights it had on the previous base (docs/explanation/lines.md).
Mode = Literal["train", "carry"]
# Key of a pair's first manual submission; sensors use it too, so they never repeat a manual request.
FIRST_WISH = "ask-1"
NOT_PROVED = "not proved"
"""Begins the reason for a candidate that failed no gate, but was stopped by an inconclusive one."""


# Each record is read once per process; sensors scan the open submissions every few seconds.
_OPEN: Remembered["Submission"] = Remembered(10_000)
_KNOWN: Remembered["Submission"] = Remembered()


class SubmissionStatus(StrEnum):
    """How a submission ended. A rejected candidate is a result, not a failure; an ungated one was not judged."""

    ACCEPTED = "accepted"
    REJECTED = "rejected"
    UNGATED = "ungated"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Submission(Record):
    """A request: fine-tune this recipe's base on this dataset version."""

    WHAT: ClassVar[str] = "the submission"

    id: str = Field(description="16 hex characters; equal wishes with equal keys have equal ids.")
    dataset: str = Field(description="Dataset key, tenant.name.vN.")
    recipe: str = Field(description="Recipe key, name.vN or tenant.name.vN.")
    mode: Mode = Field(default="train", description="What to do with the pair.")
    actor: str = Field(description="Who asked.")
    origin: Origin = Field(description="Where it was asked.")
    idempotency_key: str = Field(description="Asking again with the same key is the same submission.")
    driver: Driver = Field(
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
        """Path of its marker while it is open."""
        return f"open_submissions/{self.tenant}/{self.id}.json"


class SubmissionOutcome(Record):
    """How a submission ended, with the address of the adapter or ungated result, or the reason for its absence."""

    WHAT: ClassVar[str] = "the end of a submission"

    status: SubmissionStatus
    adapter: str = ""
    reason: str = ""
    suggestions: tuple[str, ...] = Field(
        default=(), description="Of a rejected candidate: what to try, from its curves and the tenant's past runs."
    )
    failure: Failure | None = added_field(None, description="Of a failed submission: why, where, and what to do.")
    at: str

    @property
    def told(self) -> str:
        """How it ended, in words: a candidate that failed no gate is "not proved", not "rejected"."""
        unproved = self.status is SubmissionStatus.REJECTED and self.reason.startswith(f"{NOT_PROVED}:")
        return NOT_PROVED if unproved else str(self.status)


def is_submission(path: str) -> bool:
    """Whether a path of the store is that of a submission's record."""
    return path.count("/") == 2 and path.split("/")[1] == "submissions"


def submission_id(
    dataset: str, recipe: str, idempotency_key: str, gates: Sequence[str] = (), mode: Mode = "train"
) -> str:
    """Id of a pair's submission under a key, 16 hex characters; other gates make it another submission."""
    wish: dict[str, Any] = {"dataset": dataset, "recipe": recipe, "mode": mode, "key": idempotency_key}
    return digest({**wish, "gates": sorted(gates)} if gates else wish)[:16]


def resubmit_key(store: Store, dataset: str, recipe: str, gates: Sequence[str] = ()) -> str:
    """Idempotency key for submitting a pair (again): the open submission's key, or the first unused one.

    Equal requests join an open submission; an ended one does not prevent a new submission.
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
    return Submission.find(store, f"{tenant}/submissions/{submission_id}.json")


def known_submission(store: Store, tenant: str, submission_id: str) -> Submission | None:
    """``find_submission``, read once per process: a record never changes."""
    key = f"{tenant}/{submission_id}"
    return _KNOWN.get(store, key, lambda: find_submission(store, tenant, submission_id))


def find_outcome(store: Store, submission: Submission) -> SubmissionOutcome | None:
    """How the submission ended, or None while it is open."""
    return SubmissionOutcome.find(store, f"{submission.tenant}/submissions/{submission.id}/outcome.json")


def finish(
    store: Store,
    submission: Submission,
    status: SubmissionStatus,
    *,
    adapter: str = "",
    reason: str = "",
    suggestions: Sequence[str] = (),
    failure: Failure | None = None,
) -> SubmissionOutcome:
    """Record the end of a submission; the first record is final. The reason of a failure is its sentence."""
    ours = SubmissionOutcome(
        status=status,
        adapter=adapter,
        reason=failure.reason if failure else reason,
        suggestions=tuple(suggestions),
        failure=failure,
        at=_now(),
    )
    path = f"{submission.tenant}/submissions/{submission.id}/outcome.json"
    mark_due(store, "submission", submission.tenant, path)
    outcome = ours.create_or_get(store, path)
    store.delete(submission.marker)
    if outcome is ours:
        record_submission(
            submission.id,
            submission.created_at,
            outcome.at,
            {"ft.tenant": submission.tenant, "ft.pair": submission.pair, "ft.status": str(outcome.status)},
        )
    return outcome


def note_caller(store: Store, submission: Submission, process: str) -> None:
    """Record in its marker which process launches the runs of an open submission: a repeated request may come from
    another one."""
    store.put_json(submission.marker, {"created_at": submission.created_at, "process": process})


def find_caller(store: Store, submission: Submission) -> str:
    """The process that was last recorded so; "" if none was."""
    return str((store.find_json(submission.marker) or {}).get("process", ""))


def open_submissions(store: Store, *, after: str = "", problems: list[str] | None = None) -> Iterator[Submission]:
    """Submissions that have not ended, ordered by marker; only those whose ``marker`` sorts after ``after``.

    An unreadable record is skipped, and reported in ``problems`` if given.
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
            # The process that finished it died before it deleted the marker.
            store.delete(path)
        elif submission is not None:
            yield submission


def open_ids(store: Store, tenant: str) -> set[str]:
    """Ids of the tenant's submissions that have not ended, by one listing; some may have ended this moment."""
    return {name.removesuffix(".json") for name in store.names(f"open_submissions/{tenant}")}


def open_of_tenant(store: Store, tenant: str) -> list[Submission]:
    """The tenant's submissions that have not ended, in no order. Raises UserError for a record that cannot be read."""
    found = []
    for each in open_ids(store, tenant):
        find = partial(find_submission, store, tenant, each)
        found.append(_OPEN.get(store, f"open_submissions/{tenant}/{each}.json", find))
    return [submission for submission in found if submission is not None]


def all_submissions(store: Store, tenant: str) -> list[Submission]:
    """Every submission of a tenant, newest first."""
    records = [
        Submission.get(store, entry.path)
        for entry in store.entries(f"{tenant}/submissions")
        if is_submission(entry.path)
    ]
    return sorted(records, key=lambda record: record.created_at, reverse=True)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
