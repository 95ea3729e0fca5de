"""Idempotency keys chosen by users: a key belongs permanently to the tenant's first request that uses it.

``<tenant>/submission_keys/<sha256 of the key>.json`` is create-only and written before its submission: of two different
concurrent requests under one key, exactly one gets it. If the process dies before the submission is recorded, the next
equal request completes it.
"""

import re
from datetime import UTC, datetime
from typing import ClassVar

from pydantic import Field

from ft_assets.records.submissions import Submission, find_submission
from ft_resources.canonical import sha256_bytes
from ft_resources.errors import UserError
from ft_resources.records import Record
from ft_resources.store import Store

FOLDER = "submission_keys"
# The platform's own keys, used by many pairs: a pair's n-th request, a base bump's, and that of a run from the UI.
_SHARED = re.compile(r"|ask-[0-9]+|base-bump|run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class KeyConflict(UserError):
    """The key belongs to another request; nothing was recorded."""


class KeyRecord(Record):
    """The request that a key belongs to."""

    WHAT: ClassVar[str] = "what a key was given to"

    key: str = Field(description="As the user gave it.")
    submission: str = Field(description="The id, derived from the whole request: pair, mode and gates.")
    dataset: str
    recipe: str
    mode: str
    gates: tuple[str, ...]
    at: str = Field(description="UTC, ISO 8601.")


def is_own_key(key: str) -> bool:
    """Whether a user chose the key of a submission."""
    return not _SHARED.fullmatch(key)


def check_own_key(key: str) -> None:
    """Raise UserError if a user's key is one of the platform's own, which others use too."""
    if key and not is_own_key(key):
        raise UserError(
            f"{key!r} is reserved: the platform itself gives such keys to submissions",
            where="idempotency key",
            remedy="Choose another one, such as the caller's name and a number.",
        )


def find_by_key(store: Store, tenant: str, key: str) -> Submission | None:
    """The submission that a user's key belongs to; None where nobody used it, or its process died before it was
    recorded."""
    given = KeyRecord.find(store, _path_of(tenant, key))
    return None if given is None else find_submission(store, tenant, given.submission)


def require_key_free(store: Store, submission: Submission) -> None:
    """Raise KeyConflict if the submission's key belongs to another request of its tenant."""
    if is_own_key(submission.idempotency_key):
        _require_same(KeyRecord.find(store, _path(submission)), submission)


def claim_key(store: Store, submission: Submission) -> None:
    """Assign the key to the submission. Raises KeyConflict if it belongs to another request, even a concurrent one."""
    if not is_own_key(submission.idempotency_key):
        return
    record = KeyRecord(
        key=submission.idempotency_key,
        submission=submission.id,
        dataset=submission.dataset,
        recipe=submission.recipe,
        mode=submission.mode,
        gates=submission.gates,
        at=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )
    if not record.create(store, _path(submission)):
        require_key_free(store, submission)


def _require_same(given: KeyRecord | None, submission: Submission) -> None:
    if given is None or given.submission == submission.id:
        return
    asked = _wish(submission.dataset, submission.recipe, submission.mode, submission.gates)
    raise KeyConflict(
        f"the key {given.key!r} was used for {_wish(given.dataset, given.recipe, given.mode, given.gates)}, "
        f"but this request is for {asked}",
        where="idempotency key",
        remedy=f"Repeat that request, which is submission {given.submission}, or choose another key for this one.",
    )


def _wish(dataset: str, recipe: str, mode: str, gates: tuple[str, ...]) -> str:
    more = f" and the gates {', '.join(sorted(gates))}" if gates else " and no additional gates"
    return f"{'a carry of ' if mode == 'carry' else ''}{dataset} with {recipe}{more}"


def _path(submission: Submission) -> str:
    return _path_of(submission.tenant, submission.idempotency_key)


def _path_of(tenant: str, key: str) -> str:
    # A key may be any text; its digest is a valid name in every store.
    return f"{tenant}/{FOLDER}/{sha256_bytes(key.encode())}.json"
