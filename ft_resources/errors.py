"""The one exception family for problems that a user can fix."""

from collections.abc import Sequence
from typing import Any

from ft_resources.shown import shown


class UserError(Exception):
    """An error that the user can fix: what is wrong, where, and what to do.

    Args:
        what: one sentence that says what is wrong.
        where: the file, row, field or key it was found at.
        remedy: what to do next.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = what, where, remedy
        super().__init__(what, where, remedy)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickling would rebuild the exception from its arguments, which subclasses take in other ways.
        return Exception.__new__, (type(self), *self.args), vars(self)

    def __str__(self) -> str:
        # So it stands in logs and tracebacks, also of Dagster's processes, which terminals show.
        text = shown(f"{self.where}: {self.what}" if self.where else self.what)
        return f"{text}\n  What to do: {shown(self.remedy)}" if self.remedy else text


class NotIdentified(UserError):
    """The caller is not identified: the API key is missing, unknown, expired or revoked."""


class NotPermitted(UserError):
    """The caller is identified, but may not do this."""


class NotFound(UserError):
    """It does not exist, or belongs to another tenant; the text does not say which."""


class KeyTaken(UserError):
    """An idempotency key was used for another request."""


class UnknownParameter(UserError):
    """A request says something that its address has no use for."""


class BadData(UserError):
    """A dataset, or one row of it, that cannot be used."""


class DoctorRefused(BadData):
    """A token pack that must not be trained on. The text names examples and never quotes them."""


class BadRecipe(UserError):
    """An invalid recipe, policy or suite."""


class BadBase(UserError):
    """A base model that cannot be used safely."""


class MissingInput(UserError):
    """An upstream artifact is not there yet; ``asset`` and ``partition`` say which one to materialize."""

    def __init__(self, asset: str, partition: str) -> None:
        self.asset, self.partition = asset, partition
        super().__init__(
            f"{asset} has not been materialized for {partition!r} with the current inputs and code.",
            where=asset,
            remedy=f"Curate it (ft dataset curate {partition}), then run this again."
            if asset == "dataset"
            else f"Materialize {asset} for partition {partition!r}, then run this again.",
        )


class HeldForReview(UserError):
    """A dataset version waits for a person; ``dataset`` is its key, ``reasons`` are sentences that say why."""

    def __init__(self, dataset: str, reasons: Sequence[str]) -> None:
        self.dataset, self.reasons = dataset, tuple(reasons)
        super().__init__(
            f"{dataset} is held for review: {' '.join(self.reasons)}",
            where=f"dataset {dataset}",
            remedy=f"Read its report with `ft dataset report {dataset}`; then approve it with `ft dataset approve "
            f'{dataset} --note "why it may be used"`, or add a corrected version.',
        )


class SubmissionPaused(UserError):
    """A person paused the submission; it stays open until a person resumes it."""


class Deleted(UserError):
    """Something has a tombstone: ``subject`` says what, ``how`` by whom and why, ``due`` when its bytes may be
    erased."""

    def __init__(self, subject: str, how: str, due: str) -> None:
        self.subject, self.how, self.due = subject, how, due
        super().__init__(
            f"the {subject} was {how}",
            where=subject,
            remedy=f"Use something else. Until {due} it can be restored with: ft restore {subject.split()[-1]}",
        )


class CorruptArtifact(UserError):
    """Stored bytes no longer match their manifest."""

    def __init__(
        self,
        what: str,
        *,
        where: str = "",
        remedy: str = "Restore it from the bucket's versions or a backup. ft verify finds other changes.",
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)


class StoreUnavailable(UserError):
    """The store refused a read or write: it is read-only, full, unreachable, or access is denied."""


class Misconfigured(UserError):
    """The operator's configuration is invalid; an HTTP caller cannot correct it."""


class StoreRefusal(StoreUnavailable, Misconfigured):
    """The store refuses, and will until somebody changes its rights, its settings or its room."""


class NoStore(StoreUnavailable):
    """There is no store at ``url``: its folder does not exist, or holds nothing of a store."""

    def __init__(self, url: str) -> None:
        super().__init__(
            "there is no store here",
            where=f"FT_STORE={url}",
            remedy="Check FT_STORE, and that its disk is mounted. A new store is created when the first dataset, "
            "recipe or suite is added, by ft demo and by ft init.",
        )


class NodeFault(UserError):
    """A machine failed; another one may do the work, so the attempt is retried."""


class Hung(NodeFault):
    """Ranks of a training waited for a rank that had stopped."""


class SickNode(NodeFault):
    """A machine's GPU is faulty."""


class ClusterUnavailable(UserError):
    """The cluster's API did not answer within the retry limit, or denied access."""


class NoRoomYet(UserError):
    """The cluster takes no more work for now; launching it again later may succeed."""


class TooManyRequests(UserError):
    """The caller has made too many requests, or has too many under way; it may succeed after ``retry_s`` seconds."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", retry_s: float = 5.0) -> None:
        self.retry_s = retry_s
        super().__init__(what, where=where, remedy=remedy)


class DatabaseUnavailable(UserError):
    """A SQL database did not answer, or refused."""


class DatabaseRefusal(DatabaseUnavailable, Misconfigured):
    """A SQL database refuses, and will until somebody changes its rights, its settings or its room."""


class LauncherRefusal(Exception):
    """The launcher's backend refuses a request, and would refuse it again: a missing permission, or an object that is
    not allowed."""


class GateRejected(UserError):
    """The candidate did not pass every gate. It stays stored and unserved."""


class WorkFailed(UserError):
    """A worker ended without a result and will not be retried."""


class Diverged(UserError):
    """The loss became NaN or infinite, or exploded; a retry would do the same."""


class OutOfMemory(UserError):
    """The device ran out of memory."""


def in_sentences(*said: str) -> str:
    """What is said, each part with its full stop: the words of others may have one already."""
    return " ".join(each if each.endswith((".", "!", "?")) else f"{each}." for each in map(str.strip, said) if each)


def first_line(error: Exception) -> str:
    """The first line of a library's error, shortened; its type if it has no text."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
