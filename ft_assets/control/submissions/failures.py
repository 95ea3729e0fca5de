"""Failures as the outcome table describes them: which asset, what kind of ending, who is responsible, what to do.

Unexpected errors and errors about data may quote rows, so only their kind and place are recorded and sent. The full
text is in the run's log and in the attempt's record, for those who may read them.
"""

from collections.abc import Iterable
from shlex import quote
from typing import Any

from ft_assets.records.failures import Blame, Failure
from ft_assets.records.submissions import Submission, SubmissionOutcome, SubmissionStatus
from ft_assets.settings.ungated import ADD_GATES
from ft_resources import errors
from ft_resources.artifacts import Address
from ft_resources.attempts import Attempt, Ending
from ft_resources.messages import clean
from ft_resources.outcomes import POLICIES, Outcome
from ft_resources.store import Store

# The platform's responsibility, although they are raised like user errors.
_OURS = ("StoreUnavailable", "StoreRefusal", "CorruptArtifact", "HubUnavailable")
# Their messages may quote data.
_QUIET = ("BadData", "WorkFailed")
_BLAME: dict[str, Blame] = {"none": "user", "full": "platform", "flagged": "unclear"}
_CAUSES = {
    "DoctorRefused": "the doctor refused the token pack",
    "GateRejected": "the candidate was rejected",
    "HeldForReview": "the dataset is held for review",
}
_AT_FAULT = "the platform's store or a server is at fault"
_STEPS = "What to do: "
LOGS = "Read the run's log in the UI, or: ft logs"


def of_ending(attempt: Attempt, ending: Ending) -> Failure:
    """The failure for a worker's ending."""
    policy, known = POLICIES[ending.outcome], ending.error or {}
    name = known.get("type", "")
    # A worker reports only mistakes that a user can correct as this kind.
    says = name not in _QUIET and (is_ours(name) or ending.outcome is Outcome.USER_ERROR)
    return Failure(
        asset=attempt.address.asset,
        cause=_AT_FAULT if name in _OURS else f"the worker {policy.message}",
        blame="platform" if name in _OURS else _BLAME[policy.refund],
        sentence=clean(known.get("what", "")) if says else "",
        where=clean(known.get("where", "")),
        remedy=clean(known.get("remedy", "")) or LOGS,
        attempt=attempt.path,
    )


def of_text(text: str, asset: str = "", name: str = "") -> Failure:
    """The failure for an error of ours as text (what is wrong, and after a line break what to do); ``name`` is its
    class."""
    what, _, remedy = text.partition(_STEPS)
    ours = name in _OURS
    return Failure(
        asset=asset,
        cause=_AT_FAULT if ours else _CAUSES.get(name, "an invalid request"),
        blame="platform" if ours else "user",
        sentence="" if name in _QUIET else clean(what),
        remedy=clean(remedy) or LOGS,
    )


def of_step(
    asset: str, chain: list[tuple[str, str]], description: str = "", attempts: Iterable[Attempt] = ()
) -> Failure:
    """The failure for an op's error.

    Args:
        chain: class name and message of the error and of its causes, outermost first.
        description: the message of a ``dg.Failure``, which the platform's own code wrote.
        attempts: those of the work that the op may have waited for.
    """
    if description:
        return Failure(asset=asset, cause="the run was stopped", blame="user", sentence=clean(description))
    name, text = next((each for each in reversed(chain) if is_ours(*each)), chain[-1] if chain else ("", ""))
    if not is_ours(name, text):
        cause = f"an unexpected error ({name or 'unknown'})"
        return Failure(asset=asset, cause=cause, blame="platform", remedy=LOGS)
    for attempt in attempts:
        ending = attempt.ending()
        # The op raised the worker's error again, in the worker's words (``ft_resources/execution.py``).
        if ending and ending.outcome is not Outcome.DONE and (ending.error or {}).get("what", "") in text:
            return of_ending(attempt, ending)
    if name == "WorkFailed":
        cause = "a worker ended without a result"
        return Failure(asset=asset, cause=cause, blame="unclear", remedy=LOGS)
    # Python puts the class name before the message.
    return of_text(text.partition(f"{name}: ")[2] or text, asset, name)


def of_lost_run() -> Failure:
    """The failure of a run without a failed step."""
    return Failure(
        cause="the run ended before any of its steps failed: its process was lost, or the code could not be loaded",
        blame="platform",
        remedy=(
            "Launch it again; if it fails in the same way, check the code location in the UI and the daemon's log."
        ),
    )


def with_logs(failure: Failure, submission: str) -> Failure:
    """``failure``, whose remedy names the submission where it is to read the logs."""
    return failure.model_copy(update={"remedy": f"{LOGS} {submission}"}) if failure.remedy == LOGS else failure


def remedy_of(submission: Submission, outcome: SubmissionOutcome) -> str:
    """What to do about the end of a submission; "" for an accepted one, and where it was not recorded."""
    pair = f"{submission.dataset} {submission.recipe}"
    if outcome.status is SubmissionStatus.REJECTED:
        return f"Show the verdicts with their figures: ft gate show {pair}"
    if outcome.status is SubmissionStatus.UNGATED:
        return ADD_GATES
    if outcome.status is SubmissionStatus.CANCELLED:
        return f"To submit it again: {again(submission)}"
    return outcome.failure.remedy if outcome.failure else ""


def again(submission: Submission) -> str:
    """The command that asks for the same again."""
    gates = "".join(f" --gate {quote(gate)}" for gate in submission.gates)
    return f"ft run {submission.dataset} {submission.recipe}{gates}"


def own_words(store: Store, failure: Failure) -> str:
    """The failed worker's own words, which may quote data; "" if they are recorded, or gone."""
    if failure.sentence or not failure.attempt:
        return ""
    address, _, number = failure.attempt.rpartition("/attempts/")
    try:
        ending = Attempt(store, Address.parse(address), int(number)).ending()
    except errors.CorruptArtifact:
        return ""
    return (ending.error or {}).get("what", "") if ending else ""


def chain_of(error: Any) -> list[tuple[str, str]]:
    """Class names and texts of an error as Dagster stores it and of its causes, outermost first."""
    found: list[tuple[str, str]] = []
    while error is not None and len(found) < 20:
        found.append((str(error.cls_name or ""), str(error.message)))
        error = error.cause
    return found


def is_ours(name: str, text: str = "") -> bool:
    """Whether an error is one of our own, which say what was wrong, where, and what to do: by its class's name, or by
    the full name, which Python writes before a text."""
    kind: Any = getattr(errors, name, None)
    known = name in _OURS or (isinstance(kind, type) and issubclass(kind, errors.UserError))
    return known or any(each.startswith(("ft_assets.control.", "ft_assets.records.")) for each in (name, text))
