"""How often sensors look."""

import os


def at_most(seconds: int) -> int:
    """Seconds between two looks: what is usual, or ``FT_SENSOR_SECONDS`` where that is less.

    A small store may be looked at more often than one with thousands of lines, whose ticks take longer.
    """
    return min(seconds, max(1, int(os.environ.get("FT_SENSOR_SECONDS", seconds))))
