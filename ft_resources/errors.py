"""The one exception family for problems that a user can fix."""

from collections.abc import Sequence
from functools import partial
from typing import Any


class UserError(Exception):
    """Something the user can put right: what is wrong, where, and what to do about it.

    Args:
        what: one sentence that says what is wrong.
        where: the file, row, field or key it was found at.
        remedy: what to do next.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what, where, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are made again from their positional arguments, which would not do on the way out of a process.
        return partial(type(self), where=self.where, remedy=self.remedy), (self.what,)

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text}\n  What to do: {self.remedy}" if self.remedy else text


class BadData(UserError):
    """A dataset, or one row of it, that cannot be used."""


class BadRecipe(UserError):
    """A recipe, policy or suite that does not mean anything."""


class BadBase(UserError):
    """A base model that cannot be used safely."""


class MissingInput(UserError):
    """An upstream artifact is not there yet; ``asset`` and ``partition`` say which one to materialize."""

    def __init__(self, asset: str, partition: str) -> None:
        self.asset, self.partition = asset, partition
        super().__init__(
            f"{asset} has not been materialized for {partition!r} with today's inputs and code.",
            where=asset,
            remedy=f"Materialize {asset} for partition {partition!r}, then run this again.",
        )

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return (type(self), (self.asset, self.partition))


class HeldForReview(UserError):
    """A dataset version waits for a person; ``dataset`` is its key, ``reasons`` are sentences that say why."""

    def __init__(self, dataset: str, reasons: Sequence[str]) -> None:
        self.dataset, self.reasons = dataset, tuple(reasons)
        super().__init__(
            f"{dataset} is held until a person has looked at it: {' '.join(self.reasons)}",
            where=f"dataset {dataset}",
            remedy=f"Look at it with `ft dataset report {dataset}`; then approve it with "
            f'`ft dataset approve {dataset} --note "why it may be used"`, or add a corrected version.',
        )

    def __reduce__(self) -> tuple[type, tuple[str, tuple[str, ...]]]:
        return (type(self), (self.dataset, self.reasons))


class Deleted(UserError):
    """Something has a tombstone: ``subject`` says what, ``how`` by whom and why, ``due`` when its bytes may go."""

    def __init__(self, subject: str, how: str, due: str) -> None:
        self.subject, self.how, self.due = subject, how, due
        super().__init__(
            f"the {subject} was {how}",
            where=subject,
            remedy=f"Use something else; until {due} it can be taken back with: ft restore {subject.split()[-1]}",
        )

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        return (type(self), (self.subject, self.how, self.due))


class CorruptArtifact(UserError):
    """Stored bytes no longer match their manifest."""


class StoreUnavailable(UserError):
    """The store refused a read or a write: read-only, full, unreachable or not permitted."""


class ClusterUnavailable(UserError):
    """The cluster's API did not answer for as long as it was tried, or refuses us."""


class GateRejected(UserError):
    """The candidate did not pass every gate. It stays stored and unserved."""


class WorkFailed(UserError):
    """A worker ended without a result, and its kind of ending is not retried (any more)."""
