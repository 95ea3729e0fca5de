"""Messages about paused submissions, and the command that continues an open one."""

from shlex import quote

from ft_assets.control.submissions.failures import again
from ft_assets.control.submissions.user_keys import is_own_key
from ft_assets.records.pauses import PauseChange, read_pauses
from ft_assets.records.submissions import Submission
from ft_resources.errors import SubmissionPaused
from ft_resources.store import Store


def go_on(submission: Submission) -> str:
    """The command that continues an open submission whose runs the caller's process launches."""
    key = f" --key {quote(submission.idempotency_key)}" if is_own_key(submission.idempotency_key) else ""
    return f"{again(submission)}{key}"


def said_of(pause: PauseChange) -> str:
    """Who paused it, and why."""
    return f"paused by {pause.actor}" + (f": {pause.reason}" if pause.reason else "")


def remedy_of_pause(submission: Submission) -> str:
    """How to continue a paused submission."""
    then = f", and then: {go_on(submission)}" if submission.driver == "caller" else ""
    return f"To continue: ft resume {submission.id}{then}"


def require_not_paused(store: Store, submission: Submission) -> None:
    """Raise SubmissionPaused if a person paused the submission, so that nothing more is launched for it."""
    if pause := read_pauses(store, submission).standing:
        raise SubmissionPaused(said_of(pause), where=f"submission {submission.id}", remedy=remedy_of_pause(submission))
