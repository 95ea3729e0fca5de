"""``ft cancel``: stop a submission on purpose."""

from typing import Annotated

import typer

from ft_assets import api
from ft_assets.cli.addresses import short


def cancel(submission: Annotated[str, typer.Argument(help="The submission's id.")]) -> None:
    """Cancel a submission: its work stops, unless another submission needs it too."""
    from ft_assets.cli.output import note

    cancelled = api.cancel(submission)
    print(f"cancelled {submission}")
    note(f"stopped {cancelled.runs} runs and {len(cancelled.workers)} workers")
    for address in cancelled.workers:
        note(f"  {short(str(address))}")
