"""``ft logs``: what the workers of a submission, or of one artifact, wrote."""

import time
from typing import TYPE_CHECKING, Annotated

import typer

from ft_assets.cli.addresses import find_address, short
from ft_assets.cli.environment import open_store

if TYPE_CHECKING:
    from collections.abc import Callable

    from ft_resources.attempts import Attempt
    from ft_resources.store import Store

POLL_S = 0.5


def logs(
    target: Annotated[str, typer.Argument(help="A submission's id, or an artifact's address.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until the work has ended.")] = False,
) -> None:
    """The log of the last attempt at each piece of work."""
    from ft_assets.cli.output import note

    store = open_store()
    attempts, ended = _source(store, target)
    seen: dict[str, int] = {}
    shown = ""
    while True:
        # Looked at before reading, so that what was written until the end is read too.
        over = ended()
        for attempt in attempts():
            for number, data in attempt.chunks("log", seen.get(attempt.path, 0)):
                if attempt.path != shown:
                    note(f"── {short(str(attempt.address))} attempt {attempt.number}")
                    shown = attempt.path
                typer.echo(data, nl=False)
                seen[attempt.path] = number
        if over or not follow:
            break
        time.sleep(POLL_S)
    if not seen:
        note("no worker has written anything yet")


def _source(store: "Store", target: str) -> "tuple[Callable[[], list[Attempt]], Callable[[], bool]]":
    """How to find the attempts behind ``target``, and whether its work is over."""
    from ft_assets.submissions.record import find_outcome
    from ft_assets.submissions.status import get_submission, last_attempts
    from ft_resources.attempts import attempts_at

    if "/" not in target:
        submission = get_submission(store, target)
        return lambda: list(last_attempts(store, submission)), lambda: find_outcome(store, submission) is not None
    address = find_address(store, target)

    def last() -> "list[Attempt]":
        return attempts_at(store, address)[-1:]

    return last, lambda: all(attempt.ending() is not None for attempt in last())
