"""What to do where a bucket's answer was lost: ask again, and tell our own create-only write from somebody else's.

A broken connection or a 5xx does not say whether the write was made. The bucket's client repeats a create-only write
after a 5xx, and is then told that the object exists; after a broken connection it gives up. In both cases a writer
would take its own record for another's: a claim that nobody holds, a version number that nobody got. So each write
carries a mark in the object's metadata, and who is told "exists" looks whose mark it is.
"""

import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import obstore
from obstore import exceptions as obstore_errors

# Azure wants the name of an identifier, S3 lower-case letters.
_MARK = "ftwriter"
_WAITS_S = (0.1, 0.3, 1.0, 3.0)
# The client itself asks again for minutes where nobody answers; what took so long is not asked again here.
_LONGEST_S = 30.0
Answer = TypeVar("Answer")


def create_once(backend: Any, path: str, data: bytes) -> bool:
    """Write ``data`` where nothing is yet. True if it is there by this call, False if it was there by another.

    Raises the client's error where it cannot be known; the write may have been made then.
    """
    mark = uuid.uuid4().hex
    try:
        patiently(lambda: obstore.put(backend, path, data, mode="create", attributes={_MARK: mark}))
    except obstore_errors.AlreadyExistsError:
        return _mark_of(backend, path) == mark
    return True


def patiently(call: Callable[[], Answer]) -> Answer:
    """What ``call`` answers; called again where the connection broke. It must be harmless to repeat."""
    began = time.monotonic()
    for wait_s in _WAITS_S:
        try:
            return call()
        except obstore_errors.GenericError as error:
            if not broken(error) or time.monotonic() - began > _LONGEST_S:
                raise
            time.sleep(wait_s)
    return call()


def broken(error: Exception) -> bool:
    """Whether the connection failed, and not the server refused."""
    return "HTTP error" in str(error)


def _mark_of(backend: Any, path: str) -> str | None:
    """The mark of the write that made the object; None where it has none, or is gone again."""
    try:
        found = patiently(lambda: obstore.get(backend, path, options={"head": True}))
    except FileNotFoundError:
        return None
    mark = found.attributes.get(_MARK)
    return str(mark) if mark is not None else None
