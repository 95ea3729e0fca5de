"""Ids that sort by age, the newest first, so that a listing of names gives pages of a long list without an index.

A record lies in a folder of those that were made within about five hours, ``<folder>/<first 5 of the id>/<id>.json``:
an object store lists a thousand names at once, and takes many times longer for them than for the few of a page.
"""

import re
import secrets
import time
from collections.abc import Iterator

from ft_resources.store import Store

# 2**44 milliseconds reach beyond the year 2500.
_LATEST_MS = 1 << 44
_FORM = re.compile(r"[0-9a-f]{11}[0-9a-f]{13}")
# 2**24 milliseconds are 4.7 hours.
_SHARED = 5


def new_id(now: float | None = None) -> str:
    """24 hex characters: the milliseconds left until a distant time, and 52 random bits."""
    return id_at(time.time() if now is None else now, secrets.token_hex(7))


def id_at(at: float, hexadecimal: str) -> str:
    """The id of what was made ``at`` seconds since the epoch and has 13 hex characters or more of its own."""
    return f"{_LATEST_MS - int(at * 1000):011x}{hexadecimal[:13]}"


def is_id(text: str) -> bool:
    return bool(_FORM.fullmatch(text))


def time_of(sorted_id: str) -> float:
    """When it was made, in seconds since the epoch."""
    return (_LATEST_MS - int(sorted_id[:11], 16)) / 1000


def record_path(folder: str, sorted_id: str) -> str:
    """Where the record of an id lies below ``folder``."""
    return f"{folder}/{sorted_id[:_SHARED]}/{sorted_id}.json"


def ids_in(store: Store, folder: str, after: str = "") -> Iterator[str]:
    """Ids of the records below ``folder``, the newest first; those older than ``after`` where it is given. As many are
    listed as are taken."""
    first = after[:_SHARED]
    if first:
        # Often enough for a page, without a look at which folders there are.
        yield from _ids_of(store, f"{folder}/{first}", f"{after}.json")
    for part in store.folders(folder):
        if part > first:
            yield from _ids_of(store, f"{folder}/{part}")


def _ids_of(store: Store, part: str, after: str = "") -> Iterator[str]:
    return (name.removesuffix(".json") for name in store.names_after(part, after))
