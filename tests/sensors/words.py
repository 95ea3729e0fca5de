"""What a tick said, with and without whether it worked."""

import dagster as dg

from ft_sensors.ticks import IDLE, WORKED


def sentence(found: object) -> str:
    """What was looked at and done."""
    assert isinstance(found, dg.SkipReason)
    return str(found.skip_message).removeprefix(f"{WORKED}: ").removeprefix(f"{IDLE}: ")
