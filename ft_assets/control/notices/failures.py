"""Failures as the outcome table describes them: which asset, what kind of ending, who is responsible, what to do.

Unexpected errors and errors about data may quote rows, so only their kind and place are sent. The full text is in the
run's log, for those who may read it.
"""

from typing import Any

from pydantic import Field

from ft_assets.control.notices.event import Blame, clean
from ft_resources import errors
from ft_resources.outcomes import POLICIES, Outcome
from ft_resources.strict_model import StrictModel

# The platform's responsibility, although they are raised like user errors.
_OURS = ("StoreUnavailable", "CorruptArtifact", "HubUnavailable")
# Their messages may quote data.
_QUIET = ("BadData", "WorkFailed")
_BLAME: dict[str, Blame] = {"none": "user", "full": "platform", "flagged": "unclear"}
_STEPS = "What to do: "
_LOGS = "Read the run's log in the UI, or: ft logs"


class Failure(StrictModel):
    """Why something failed."""

    asset: str = Field(default="", description="The asset whose work failed; empty if no work had begun.")
    cause: str = Field(description="The kind of ending.")
    blame: Blame
    sentence: str = Field(default="", description="What was wrong, if it may be shown.")
    where: str = ""
    remedy: str = ""


def of_ending(asset: str, outcome: Outcome, error: dict[str, str] | None) -> Failure:
    """The failure for a worker's ending."""
    policy, known = POLICIES[outcome], error or {}
    says = known.get("type", "") not in _QUIET and is_ours(known.get("type", ""))
    return Failure(
        asset=asset,
        cause=f"{outcome.value}: it {policy.message}",
        blame="platform" if known.get("type") in _OURS else _BLAME[policy.refund],
        sentence=clean(known.get("what", "")) if says else "",
        where=clean(known.get("where", "")),
        remedy=clean(known.get("remedy", "")) or _LOGS,
    )


def of_step(asset: str, chain: list[tuple[str, str]], description: str = "") -> Failure:
    """The failure for an op's error.

    Args:
        chain: class name and message of the error and of its causes, outermost first.
        description: the message of a ``dg.Failure``, which the platform's own code wrote.
    """
    if description:
        return Failure(asset=asset, cause="the run ended on purpose", blame="user", sentence=clean(description))
    name, text = next((each for each in reversed(chain) if is_ours(each[0])), chain[-1] if chain else ("", ""))
    if not is_ours(name):
        cause = f"an unexpected error ({name or 'unknown'})"
        return Failure(asset=asset, cause=cause, blame="platform", remedy=_LOGS)
    if name == "WorkFailed":
        cause = "a worker ended without a result"
        return Failure(asset=asset, cause=cause, blame="unclear", remedy=_LOGS)
    what, _, remedy = text.partition(_STEPS)
    return Failure(
        asset=asset,
        cause="the platform's store or a server is at fault" if name in _OURS else "an invalid request",
        blame="platform" if name in _OURS else "user",
        # Python puts the class name before the message.
        sentence="" if name in _QUIET else clean(what.partition(f"{name}: ")[2] or what),
        remedy=clean(remedy) or _LOGS,
    )


def of_lost_run() -> Failure:
    """The failure of a run without a failed step."""
    return Failure(
        cause="the run ended before any of its steps failed: its process was lost, or the code could not be loaded",
        blame="platform",
        remedy="Launch it again; if it ends so again, look at the code location in the UI, and at the daemon's log.",
    )


def chain_of(error: Any) -> list[tuple[str, str]]:
    """Class names and texts of an error as Dagster stores it and of its causes, outermost first."""
    found: list[tuple[str, str]] = []
    while error is not None and len(found) < 20:
        found.append((str(error.cls_name or ""), str(error.message)))
        error = error.cause
    return found


def is_ours(name: str) -> bool:
    """Whether ``name`` is one of our own errors, which say what was wrong, where, and what to do."""
    kind: Any = getattr(errors, name, None)
    return name in _OURS or (isinstance(kind, type) and issubclass(kind, errors.UserError))
