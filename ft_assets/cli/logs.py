"""``ft logs``: what the workers of a submission, or of one artifact, wrote."""

import codecs
import time
from typing import Annotated

import typer

from ft_assets.cli.addresses import short
from ft_assets.cli.door import api
from ft_assets.cli.status import reasons

POLL_S = 0.5
_utf8 = codecs.getincrementaldecoder("utf-8")


def logs(
    target: Annotated[str, typer.Argument(help="Id of a submission, or address of an artifact.")],
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Follow the log until the work has ended.")] = False,
) -> None:
    """Print the log of the last attempt of each step."""
    from ft_assets.cli.output import note

    found = api.logs(target)
    seen: dict[str, int] = {}
    # A letter may begin in one piece and end in the next.
    decoders: dict[str, codecs.IncrementalDecoder] = {}
    shown = ""
    while True:
        # Looked at before reading, so that what was written until the end is read too.
        over = found.ended()
        for attempt in found.attempts():
            for number, data in attempt.chunks("log", seen.get(attempt.path, 0)):
                if attempt.path != shown:
                    note(f"── {short(str(attempt.address))} attempt {attempt.number}")
                    shown = attempt.path
                decoder = decoders.setdefault(attempt.path, _utf8("replace"))
                print(decoder.decode(data), end="", flush=True)
                seen[attempt.path] = number
        if over or not follow:
            break
        time.sleep(POLL_S)
    if not seen:
        note("no output yet")
    standing = found.status()
    if standing is not None and standing.detail:
        note(f"── {standing.state}")
        for line in reasons(standing):
            note(line)
