"""``ft cancel``, ``ft pause`` and ``ft resume``: stop a submission on purpose, for good or for a while."""

from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api, waits_for

if TYPE_CHECKING:
    from ft_assets.api import Stopped

Submission = Annotated[str, typer.Argument(help="The submission's id.")]


def cancel(submission: Submission) -> None:
    """Cancel a submission: its work stops, unless another submission needs it too."""
    stopped = api.cancel(submission)
    print(f"cancelled {submission}")
    _tell(stopped)


def pause(submission: Submission, reason: Annotated[str, typer.Option(help="Why; ft status shows it.")] = "") -> None:
    """Pause a submission: its work stops as by ft cancel, and goes on where it was once it is resumed."""
    from ft_assets.cli.output import note

    paused = api.pause(submission, reason=reason)
    said = f": {paused.pause.reason}" if paused.pause.reason else ""
    print(f"paused {submission}" if paused.created else f"it was paused already, by {paused.pause.actor}{said}")
    _tell(paused)
    note(f"to go on with it: ft resume {submission}")


def resume(submission: Submission) -> None:
    """Resume a paused submission."""
    from ft_assets.cli.output import note

    resumed = api.resume(submission)
    print(f"resumed {submission}" if resumed.created else "it is not paused")
    if resumed.created:
        note(f"go on with it: {resumed.command}" if resumed.command else waits_for())


def _tell(stopped: "Stopped") -> None:
    from ft_assets.cli.output import note

    note(f"stopped {stopped.runs} runs and {len(stopped.workers)} workers")
    for address in stopped.workers:
        note(f"  {short(str(address))}")
    for address in stopped.shared:
        note(f"another submission needs {short(str(address))}, whose worker goes on")
