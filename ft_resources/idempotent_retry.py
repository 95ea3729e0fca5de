"""Idempotent retries: repeat a request whose answer was lost, and recognise our own create-only writes.

After a broken connection or a 5xx it is unknown whether the write was made. The bucket's client repeats a create-only
write after a 5xx, and then gets "exists"; after a broken connection it gives up. In both cases a writer would take its
own record for another's, and a claim or version number would belong to nobody. So each write puts a mark into the
object's metadata, and a writer that gets "exists" checks whose mark it is.

The client says "exists" too where S3 answers 409, as another write is under way or the object was just deleted
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html). So where nothing is there, "exists" is
no answer, and the write is repeated.
"""

import os
import time
import uuid
from collections.abc import Callable
from typing import Any, TypeVar

import obstore
from obstore import exceptions as obstore_errors

from ft_resources.errors import StoreRefusal

# Azure requires an identifier as the name, S3 lower-case letters.
_MARK = "ftwriter"
_WAITS_S = (0.1, 0.3, 1.0, 3.0)
# Without an answer the client itself retries for minutes; such a call is not repeated here.
_LONGEST_S = 30.0
# Where a bucket was seen to let one writer win: by its server's address and the store's URL, once a process.
_PROVEN: set[tuple[str | None, str]] = set()
Answer = TypeVar("Answer")


def create_once(backend: Any, url: str, path: str, data: bytes) -> bool:
    """Write ``data`` unless the object exists. True if this call created it, False if another writer did.

    Raises the client's error if that cannot be known; the write may have been made then. Raises StoreRefusal if the
    bucket of the store at ``url`` lets everybody create the same object.
    """
    bucket, mark = (os.environ.get("AWS_ENDPOINT_URL"), url), uuid.uuid4().hex

    def write() -> bool:
        try:
            obstore.put(backend, path, data, mode="create", attributes={_MARK: mark})
        except obstore_errors.AlreadyExistsError as error:
            try:
                whose = _mark_of(backend, path)
            except (FileNotFoundError, obstore_errors.PermissionDeniedError):
                # A narrow session is denied to see what is not there.
                raise error from None
            _PROVEN.add(bucket)
            return whose == mark
        return True

    won = patiently(write)
    # Who ignores the condition is not found out by a write that wins. It is repeated with the same bytes; twice, as the
    # object may just have been deleted.
    for _ in range(2):
        if bucket not in _PROVEN:
            patiently(write)
    if bucket not in _PROVEN:
        raise StoreRefusal(
            "the bucket lets every writer create the same object: it ignores If-None-Match",
            where=url,
            remedy="Every name and claim rests on it: use a bucket of a server that supports conditional writes.",
        )
    return won


def patiently(call: Callable[[], Answer]) -> Answer:
    """The result of ``call``, repeated if the connection broke or another request was under way. It must be
    idempotent."""
    began = time.monotonic()
    for wait_s in _WAITS_S:
        try:
            return call()
        except (obstore_errors.GenericError, obstore_errors.AlreadyExistsError) as error:
            if not broken(error) or time.monotonic() - began > _LONGEST_S:
                raise
            time.sleep(wait_s)
    return call()


def broken(error: Exception) -> bool:
    """Whether the connection failed, or the server says "exists" of nothing, as opposed to a refusal."""
    return isinstance(error, obstore_errors.AlreadyExistsError) or "HTTP error" in str(error)


def _mark_of(backend: Any, path: str) -> str | None:
    """The mark of the write that created the object, or None. Raises FileNotFoundError if nothing is there."""
    mark = obstore.get(backend, path, options={"head": True}).attributes.get(_MARK)
    return str(mark) if mark is not None else None
