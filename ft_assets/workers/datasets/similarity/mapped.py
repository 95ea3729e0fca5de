"""Named arrays in one file, memory-mapped, and checked when they are opened."""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from ft_resources.errors import BadData

_MAGIC = b"ftarray1"
_HEADER = 4096
_ALIGNED = 64


class NewArrays:
    """Arrays of zeros in a file that replaces ``path`` once ``seal`` is called."""

    def __init__(self, path: Path, shapes: Mapping[str, tuple[type[np.generic], int]]) -> None:
        self._path, self._part = path, path.with_name(path.name + ".part")
        self._layout: dict[str, tuple[str, int, int]] = {}
        at = _HEADER
        for name, (kind, length) in shapes.items():
            self._layout[name] = (np.dtype(kind).str, at, length)
            at += -(-length * np.dtype(kind).itemsize // _ALIGNED) * _ALIGNED
        self._size = at
        with self._part.open("wb") as file:
            file.truncate(at)
        self.arrays = _mapped(self._part, self._layout, "r+")

    def seal(self, notes: Mapping[str, Any], *, checked: bool) -> None:
        """Write the header with ``notes`` (JSON), and a digest of all bytes if they are to be ``checked``."""
        header = {"arrays": self._layout, "notes": dict(notes), "size": self._size}
        with self._part.open("r+b") as file:
            head = json.dumps({**header, "digest": _digest(header, file) if checked else ""}).encode()
            file.seek(0)
            file.write(_MAGIC + len(head).to_bytes(4, "little") + head)
        os.replace(self._part, self._path)


def open_arrays(path: Path, *, own: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The arrays in the file at ``path``, mapped read-only, and its notes.

    Raises BadData unless every byte is as it was written. ``own`` says that only the caller uses the file: then its
    bytes are not checked, and it may have been sealed unchecked.
    """
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER)
            length = int.from_bytes(head[8:12], "little")
            if head[:8] != _MAGIC or not 0 < length <= _HEADER - 12:
                raise ValueError("it is not an index of grams of this version")
            header = json.loads(head[12 : 12 + length])
            digest, size = header.pop("digest"), path.stat().st_size
            if size != header["size"]:
                raise ValueError(f"it has {size} bytes instead of {header['size']}")
            if not own and digest != _digest(header, file):
                raise ValueError("its bytes are not those that were written")
        return _mapped(path, header["arrays"], "r"), header["notes"]
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise BadData(
            f"the index of test items cannot be used: {error}",
            where=path.name,
            remedy="Build the index again; it is made of the eval suites alone.",
        ) from error


def _mapped(path: Path, layout: Mapping[str, Any], mode: Any) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    for name, (kind, at, length) in layout.items():
        found = np.memmap(path, np.dtype(kind), mode, at, (length,)) if length else np.zeros(0, np.dtype(kind))
        if mode == "r":
            found.flags.writeable = False
        arrays[name] = found
    return arrays


def _digest(header: Mapping[str, Any], file: BinaryIO) -> str:
    """Digest of the header and of everything after it."""
    file.seek(_HEADER)
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode(), digest_size=32)
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
