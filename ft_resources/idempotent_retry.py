"""Idempotent retries: repeat a request whose answer was lost, and recognise our own create-only writes.

After a broken connection or a 5xx it is unknown whether the write was made. The bucket's client repeats a create-only
write after a 5xx, and then gets "exists"; after a broken connection it gives up. In both cases a writer would take its
own record for another's, and a claim or version number would belong to nobody. So each write puts a mark into the
object's metadata, and a writer that gets "exists" checks whose mark it is.
"""

import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import obstore
from obstore import exceptions as obstore_errors

# Azure requires an identifier as the name, S3 lower-case letters.
_MARK = "ftwriter"
_WAITS_S = (0.1, 0.3, 1.0, 3.0)
# Without an answer the client itself retries for minutes; such a call is not repeated here.
_LONGEST_S = 30.0
Answer = TypeVar("Answer")


def create_once(backend: Any, path: str, data: bytes) -> bool:
    """Write ``data`` unless the object exists. True if this call created it, False if another writer did.

    Raises the client's error if that cannot be known; the write may have been made then.
    """
    mark = uuid.uuid4().hex
    try:
        patiently(lambda: obstore.put(backend, path, data, mode="create", attributes={_MARK: mark}))
    except obstore_errors.AlreadyExistsError:
        return _mark_of(backend, path) == mark
    return True


def patiently(call: Callable[[], Answer]) -> Answer:
    """The result of ``call``, repeated if the connection broke. It must be idempotent."""
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
    """Whether the connection failed, as opposed to a refusal by the server."""
    return "HTTP error" in str(error)


def _mark_of(backend: Any, path: str) -> str | None:
    """The mark of the write that created the object; None if it has none, or is gone again."""
    try:
        found = patiently(lambda: obstore.get(backend, path, options={"head": True}))
    except FileNotFoundError:
        return None
    mark = found.attributes.get(_MARK)
    return str(mark) if mark is not None else None
