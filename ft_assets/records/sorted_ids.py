"""Ids that sort by age, the newest first, so that a listing of names gives pages of a long list without an index."""

import re
import secrets
import time

# 2**44 milliseconds reach beyond the year 2500.
_LATEST_MS = 1 << 44
_FORM = re.compile(r"[0-9a-f]{11}[0-9a-f]{13}")


def new_id(now: float | None = None) -> str:
    """24 hex characters: the time that is left until a far one, in milliseconds, and 52 random bits."""
    left = _LATEST_MS - int((time.time() if now is None else now) * 1000)
    return f"{left:011x}{secrets.token_hex(7)[:13]}"


def is_id(text: str) -> bool:
    return bool(_FORM.fullmatch(text))


def time_of(sorted_id: str) -> float:
    """When it was made, in seconds since the epoch."""
    return (_LATEST_MS - int(sorted_id[:11], 16)) / 1000
