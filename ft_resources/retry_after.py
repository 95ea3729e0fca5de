"""How long a server asks to be left alone: the header Retry-After, in seconds or as a date (RFC 9110, 10.2.3)."""

import math
import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime


def retry_after(said: str | None, longest_s: float, *, clock: Callable[[], float] = time.time) -> float:
    """Seconds, between 0 and ``longest_s``; 0 for a header that is missing or says neither."""
    try:
        wanted = float(said or 0)
    except ValueError:
        try:
            wanted = parsedate_to_datetime(str(said)).timestamp() - clock()
        except (ValueError, OverflowError):
            return 0.0
    return 0.0 if math.isnan(wanted) else min(max(0.0, wanted), longest_s)
