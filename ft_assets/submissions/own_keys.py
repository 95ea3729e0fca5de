"""Idempotency keys that users choose: the first wish that a tenant asks for under a key has it for good.

``<tenant>/submission_keys/<sha256 of the key>.json``, create-only, written before the submission that it names: of two
who ask at once for different things under one key, exactly one gets it. One whose maker died before the submission was
recorded is taken up by whoever asks for the same again.
"""

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field

from ft_resources.canonical import canonical_json, sha256_bytes
from ft_resources.errors import UserError
from ft_resources.records import find_record
from ft_resources.store import Store

if TYPE_CHECKING:
    from ft_assets.submissions.record import Submission

FOLDER = "submission_keys"
# The platform's own, which many pairs have: the n-th wish for a pair, a base bump's, and that of a run from the UI.
_SHARED = re.compile(r"|ask-[0-9]+|base-bump|run-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class KeyConflict(UserError):
    """A key that was given to something else; nothing was recorded."""


class KeyRecord(BaseModel):
    """What a key was given to."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    key: str = Field(description="As the user gave it.")
    submission: str = Field(description="The id, which stands for all that a wish is: pair, mode and gates.")
    dataset: str
    recipe: str
    mode: str
    gates: tuple[str, ...]
    at: str = Field(description="UTC, ISO 8601.")


def check_own_key(key: str) -> None:
    """Raise UserError for a key given by a user that is one of the platform's own, so not theirs alone."""
    if key and _SHARED.fullmatch(key):
        raise UserError(
            f"{key!r} is a key that the platform itself gives to submissions",
            where="idempotency key",
            remedy="Choose another one, such as the name of what asks and its number.",
        )


def require_key_free(store: Store, submission: "Submission") -> None:
    """Raise KeyConflict where the submission's key was given to another wish of its tenant."""
    if not _SHARED.fullmatch(submission.idempotency_key):
        _require_same(find_record(store, _path(submission), KeyRecord, "what a key was given to"), submission)


def claim_key(store: Store, submission: "Submission") -> None:
    """Give the key to the submission. Raises KeyConflict where it was given to another wish, also a moment ago."""
    if _SHARED.fullmatch(submission.idempotency_key):
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
    if not store.create(_path(submission), canonical_json(record.model_dump(mode="json"))):
        require_key_free(store, submission)


def _require_same(given: KeyRecord | None, submission: "Submission") -> None:
    if given is None or given.submission == submission.id:
        return
    asked = _wish(submission.dataset, submission.recipe, submission.mode, submission.gates)
    raise KeyConflict(
        f"the key {given.key!r} was given to {_wish(given.dataset, given.recipe, given.mode, given.gates)}, and now "
        f"{asked} is asked for",
        where="idempotency key",
        remedy=f"Ask for the same again, which is submission {given.submission}, or choose another key for this.",
    )


def _wish(dataset: str, recipe: str, mode: str, gates: tuple[str, ...]) -> str:
    more = f" and the gates {', '.join(sorted(gates))}" if gates else " and no gates of its own"
    return f"{'a carry of ' if mode == 'carry' else ''}{dataset} with {recipe}{more}"


def _path(submission: "Submission") -> str:
    # A key may be any text; its digest is a name that no store minds.
    return f"{submission.tenant}/{FOLDER}/{sha256_bytes(submission.idempotency_key.encode())}.json"
