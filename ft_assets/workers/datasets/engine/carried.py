"""Files of one machine on the others of a Ray cluster, which share no disk with it."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from blake3 import blake3

from ft_resources.canonical import digest as digest_of_value

# Folders that this process has checked, by digest.
_CHECKED: dict[str, Path] = {}


@dataclass(frozen=True, kw_only=True, slots=True)
class Needed:
    """Files of this machine that every item names, by the path that each has in a folder of other nodes.

    ``moved(item, folder)`` is the item with that folder on another node; a module-level function.
    """

    files: Mapping[str, Path]
    moved: Callable[[Any, Path], Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Carried:
    """Needed files in Ray's object store: ``content`` refers to their bytes by name.

    In a list, Ray does not fetch it for each task, but where a node asks.
    """

    content: list[Any]
    digest: str
    moved: Callable[[Any, Path], Any]

    @classmethod
    def of(cls, needed: Needed) -> "Carried":
        import ray

        # Buffers are read in the object store; each process would copy bytes.
        files = {name: pa.py_buffer(path.read_bytes()) for name, path in needed.files.items()}
        return cls(content=[ray.put(files)], digest=digest_of(needed.files), moved=needed.moved)

    def folder(self) -> Path:
        """The files' folder on this node."""
        import ray

        return kept_folder(self.digest, lambda: ray.get(self.content[0]))


def kept_folder(digest: str, fetch: Callable[[], Mapping[str, pa.Buffer]]) -> Path:
    """A folder of this node with the files of ``digest``, for all its processes and for later work.

    It appears whole or not at all. Each process checks it once; one that is damaged is replaced.
    """
    folder = Path(tempfile.gettempdir()) / f"ft-{os.getuid()}-{digest}"
    if _CHECKED.get(digest) == folder and folder.is_dir():
        return folder
    with open(f"{folder}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir() or digest_of(_files_in(folder)) != digest:
            # Left by a process that died before it could rename it.
            part = Path(f"{folder}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(mode=0o700)
            for name, data in fetch().items():
                (part / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                (part / name).write_bytes(data)
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
    _CHECKED[digest] = folder
    return folder


def digest_of(files: Mapping[str, Path]) -> str:
    """One digest of ``files``, by name and content."""
    return digest_of_value({name: blake3().update_mmap(path).hexdigest() for name, path in files.items()})


def _files_in(folder: Path) -> dict[str, Path]:
    return {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
