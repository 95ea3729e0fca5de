"""Files that are known by their SHA-256: streamed from a URL or a folder, and kept only if every byte is right."""

import gzip
import hashlib
import time
import urllib.error
import urllib.request
import zlib
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import IO

from ft_resources.errors import BadRecipe, UserError

# Timeout between two arrivals of bytes.
_TIMEOUT_S = 60.0
_WAITS_S = (0.2, 1.0)
_AT_ONCE = 1 << 16
_OTHER = "this is not the file that was pinned"
_REMEDY = "None of it was used. Fetch it again; if that does not help, the source or mirror has changed."


class SourceUnavailable(UserError):
    """The place that files come from is unreachable, or does not have one of them."""


class _Again(SourceUnavailable):
    """A temporary failure."""


class _CutShort(BadRecipe):
    """The bytes end too early, as those of a broken connection do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PinnedFile:
    """What a file must be: ``sha256`` and ``size`` in bytes, both once unpacked."""

    sha256: str
    size: int


def fetch(url: str, target: Path, expected: PinnedFile, *, packed: bool, remedy: str) -> None:
    """Store what ``url`` (http or https) answers at ``target``; ``packed``: it is gzip, and is unpacked.

    Tried three times where the connection breaks or the server is busy. Raises SourceUnavailable with ``remedy`` if
    there is no answer, BadRecipe for other bytes; ``target`` does not exist then.
    """
    for wait_s in _WAITS_S:
        with suppress(_Again, _CutShort):
            return _fetch(url, target, expected, packed, remedy)
        time.sleep(wait_s)
    _fetch(url, target, expected, packed, remedy)


def _fetch(url: str, target: Path, expected: PinnedFile, packed: bool, remedy: str) -> None:
    request = urllib.request.Request(url, headers={"User-Agent": "ft-platform"})
    try:
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as response:
            save(response, target, expected, packed=packed, where=url)
    except urllib.error.HTTPError as error:
        kind = _Again if error.code == 429 or error.code >= 500 else SourceUnavailable
        raise kind(f"the server answers {error.code}", where=url, remedy=remedy) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise _Again(f"there is no answer ({reason})", where=url, remedy=remedy) from error


def save(stream: IO[bytes], target: Path, expected: PinnedFile, *, packed: bool, where: str) -> None:
    """Store the bytes of ``stream`` at ``target``. Never reads far beyond the expected size, whatever comes.

    Raises BadRecipe that names ``where`` for other bytes than the expected ones; ``target`` does not exist then.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            _copy(gzip.GzipFile(fileobj=stream) if packed else stream, file, expected, where)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def _copy(stream: IO[bytes] | gzip.GzipFile, file: IO[bytes], expected: PinnedFile, where: str) -> None:
    digest, size = hashlib.sha256(), 0
    try:
        while size <= expected.size and (block := stream.read(_AT_ONCE)):
            file.write(block)
            digest.update(block)
            size += len(block)
    except EOFError:
        pass  # gzip that ends too early shows by its size.
    except (gzip.BadGzipFile, zlib.error) as error:
        raise BadRecipe(f"{_OTHER}: this is not gzip ({error})", where=where, remedy=_REMEDY) from error
    if size < expected.size:
        what = f"it has only {size:,} of {expected.size:,} bytes"
        raise _CutShort(f"{_OTHER}: {what}", where=where, remedy=_REMEDY)
    if size > expected.size:
        raise BadRecipe(f"{_OTHER}: it has more than {expected.size:,} bytes", where=where, remedy=_REMEDY)
    if digest.hexdigest() != expected.sha256:
        what = f"its SHA-256 begins with {digest.hexdigest()[:12]}, not with {expected.sha256[:12]}"
        raise BadRecipe(f"{_OTHER}: {what}", where=where, remedy=_REMEDY)
