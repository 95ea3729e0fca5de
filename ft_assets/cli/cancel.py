"""``ft cancel``, ``ft pause`` and ``ft resume``: stop a submission on purpose, for good or for a while."""

from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api, waits_for

if TYPE_CHECKING:
    from ft_assets.api import Stopped

Submission = Annotated[str, typer.Argument(help="The submission's id.")]


def cancel(submission: Submission) -> None:
    """Cancel a submission. Its work stops unless another submission needs it."""
    stopped = api.cancel(submission)
    print(f"cancelled {submission}")
    _tell(stopped)


def pause(
    submission: Submission, reason: Annotated[str, typer.Option(help="Reason, shown by ft status.")] = ""
) -> None:
    """Pause a submission. Its work stops and continues from its last save when resumed."""
    from ft_assets.cli.output import note

    paused = api.pause(submission, reason=reason)
    said = f": {paused.pause.reason}" if paused.pause.reason else ""
    print(f"paused {submission}" if paused.created else f"already paused by {paused.pause.actor}{said}")
    _tell(paused)
    note(f"to continue: ft resume {submission}")


def resume(submission: Submission) -> None:
    """Resume a paused submission."""
    from ft_assets.cli.output import note

    resumed = api.resume(submission)
    print(f"resumed {submission}" if resumed.created else "not paused")
    if resumed.created:
        note(f"to continue: {resumed.command}" if resumed.command else waits_for())


def _tell(stopped: "Stopped") -> None:
    from ft_assets.cli.output import note

    note(f"stopped {stopped.runs} runs and {len(stopped.workers)} workers")
    for address in stopped.workers:
        note(f"  {short(str(address))}")
    for address in stopped.shared:
        note(f"another submission needs {short(str(address))}, so its worker continues")
