"""Content-addressed cache of artifacts' files on this machine's disk: files that several jobs read are fetched once.

    <folder>/artifacts/<tenant>/<sha256>      a complete, verified file
    <folder>/artifacts/<tenant>/.<sha256>…    a partial download, never read
    <folder>/artifacts/.locks/…               locks for fetching and for eviction

Processes coordinate by locks on these files; the operating system releases them however a process ends. A file is
verified when it is fetched. Later it is trusted as long as its size and modification time are unchanged, so a truncated
or modified file is fetched again, without hashing every file on every use.

Digests are only taken from an artifact's manifest, and only looked up in the folder of the artifact's own tenant: a
guessed digest gives access to nothing that the store would not give.
"""

import errno
import fcntl
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from ft_resources.artifacts import Artifact
from ft_resources.cache_room import make_room
from ft_resources.cached_copies import is_private, link, open_whole, seal
from ft_resources.environment import whole_number
from ft_resources.errors import CorruptArtifact, StoreUnavailable, UserError

_LIMIT_MB = 65_536
_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileCache:
    """Copies of files in a bucket. Files of a store on this machine's disk are verified and read in place.

    Args:
        folder: folder of the copies; all jobs and processes of this user may share it.
        limit: maximum total bytes: the least recently used copies are evicted, but never one that a running job holds,
            so running jobs together may exceed it. None takes FT_CACHE_MB, else 64 GiB.
        warm: folder of another cache, which others fill; its copies are used where they are, and never written to. A
            folder that belongs to another user, or that others may write to, is not used.

    ``fetched`` counts the bytes that this object fetched from the store.
    """

    def __init__(self, folder: Path, limit: int | None = None, *, warm: Path | None = None) -> None:
        self.root = folder.absolute() / "artifacts"
        self._warm = warm.absolute() / "artifacts" if warm else None
        self.fetched = 0
        # A configured limit may be the volume's size. The default limit is no reason to refuse a large base.
        self._refuses = limit is not None or bool(os.environ.get("FT_CACHE_MB"))
        self.limit = whole_number("FT_CACHE_MB", _LIMIT_MB, at_least=1) << 20 if limit is None else limit
        self._held: dict[Path, int] = {}

    @classmethod
    def of_machine(cls, scratch: Path) -> "FileCache":
        """The cache at FT_CACHE, which jobs share; if unset, one below ``scratch`` that is deleted with the job. Copies
        at FT_WARM_CACHE are used too."""
        warm = os.environ.get("FT_WARM_CACHE")
        return cls(Path(os.environ.get("FT_CACHE") or scratch / "cache"), warm=Path(warm) if warm else None)

    def path(self, artifact: Artifact, name: str) -> Path:
        """A complete copy of file ``name``. It may be evicted at any time: open it at once; call again if it is gone.

        Raises KeyError for a file that the artifact does not have, CorruptArtifact if the store's file is damaged, and
        StoreUnavailable if the disk has no room for it.
        """
        target = self._target(artifact, name)
        if artifact.store.root is not None:
            return artifact.path(name, self.root)
        os.close(self._whole(artifact, name, target))
        return target

    def folder(
        self, artifact: Artifact, view: Path, prefix: str = "", report: Callable[[int, int], None] | None = None
    ) -> Path:
        """Folder ``view`` of links to the files of ``artifact`` whose names start with ``prefix``, named without it.

        The files are complete, stay as long as this process lives, and must not be written to. An existing ``view`` is
        returned as it is, so the processes of a job verify files once. ``report(done, total)`` is called with the
        number of fetched bytes.

        Raises as ``path``, KeyError if there is no such file, and UserError if the files need more than FT_CACHE_MB.
        """
        if view.is_dir():
            return view
        names = [name for name in sorted(artifact.manifest.files) if name.startswith(prefix)]
        if not names:
            raise KeyError(f"{artifact.address} has no files below {prefix!r}")
        for name in names:
            _require_inside(artifact, name)
        if artifact.store.root is not None:
            files = {name: artifact.path(name, view) for name in names}
        else:
            files = self._hold(artifact, names, report or (lambda done, total: None))
        staged = view.with_name(f".{view.name}.{uuid.uuid4().hex}")
        for name, path in files.items():
            link(path, staged / name.removeprefix(prefix))
        try:
            staged.rename(view)
        except OSError:
            # Another process of this job created it first.
            shutil.rmtree(staged)
            if not view.is_dir():
                raise
        return view

    def close(self) -> None:
        """Release all files; the end of the process does so too."""
        while self._held:
            os.close(self._held.popitem()[1])

    def _hold(self, artifact: Artifact, names: list[str], report: Callable[[int, int], None]) -> dict[str, Path]:
        """Complete copies of these files, fetched if missing; they stay while this process lives."""
        targets = {name: self._hold_warm(artifact, name) or self._target(artifact, name) for name in names}
        missing = {name: target for name, target in targets.items() if target not in self._held}
        sizes = {target: artifact.manifest.files[name].size for name, target in missing.items()}
        self._require_fitting(artifact, sum(sizes.values()))
        # Other processes that need the same files wait here, and then find them.
        with self._alone(f"artifact-{artifact.address.fingerprint[:2]}"):
            for target in sizes.keys() - self._held.keys():
                if (file := open_whole(target, sizes[target])) is not None:
                    self._held[target] = file
            total = sum(sizes[target] for target in sizes.keys() - self._held.keys())
            done = 0
            if total:
                self._make_room(total)
            for name, target in missing.items():
                if target not in self._held:
                    report(done, total)
                    self._held[target] = self._whole(artifact, name, target)
                    done += sizes[target]
        return targets

    def _hold_warm(self, artifact: Artifact, name: str) -> Path | None:
        """The copy of file ``name`` in the other cache, which stays while this process lives; None without one."""
        if self._warm is None or not is_private(self._warm):
            return None
        target = self._warm / self._target(artifact, name).relative_to(self.root)
        if target not in self._held:
            file = open_whole(target, artifact.manifest.files[name].size, of_others=True)
            if file is None:
                return None
            self._held[target] = file
        return target

    def _whole(self, artifact: Artifact, name: str, target: Path) -> int:
        """The file's copy, fetched if missing, opened and locked against removal."""
        size = artifact.manifest.files[name].size
        if (file := open_whole(target, size)) is not None:
            return file
        with self._alone(_fetching(target.name)):
            while (file := open_whole(target, size)) is None:
                self._make_room(size)
                self._fetch(artifact, name, target)
        return file

    def _fetch(self, artifact: Artifact, name: str, target: Path) -> None:
        target.parent.mkdir(exist_ok=True)
        # Remove what a killed process left (this one has the lock), and a copy that is no longer complete.
        for left in (*target.parent.glob(f".*{target.name}*"), target):
            left.unlink(missing_ok=True)
        staged = target.with_name(f".{target.name}")
        try:
            artifact.fetch(name, staged)
            seal(staged)
            staged.replace(target)
            self.fetched += artifact.manifest.files[name].size
        except (StoreUnavailable, OSError) as error:
            cause = error.__cause__ if isinstance(error, StoreUnavailable) else error
            if getattr(cause, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise self._full(artifact.manifest.files[name].size) from error
            raise
        finally:
            staged.unlink(missing_ok=True)

    def _target(self, artifact: Artifact, name: str) -> Path:
        """Path of the copy of file ``name``. Raises KeyError for a file that the artifact does not have."""
        if name not in artifact.manifest.files:
            raise KeyError(f"{artifact.address} has no file {name!r}")
        sha256 = artifact.manifest.files[name].sha256
        if not _SHA256.fullmatch(sha256):
            raise _damaged(artifact, f"{sha256!r} is not a sha256")
        # Artifacts are found by their address alone, so this is a tenant's name, not a path.
        return self.root / artifact.address.tenant / sha256

    def _require_fitting(self, artifact: Artifact, size: int) -> None:
        if self._refuses and size > self.limit:
            raise UserError(
                f"{artifact.address} needs {_mib(size)} MiB on the local disk, and {_mib(self.limit)} are allowed",
                where="FT_CACHE_MB",
                remedy=f"Set FT_CACHE_MB to at least {_mib(size)}, and provide that much space on the disk of "
                "FT_CACHE.",
            )

    def _make_room(self, size: int) -> None:
        with self._alone("room"):
            make_room(self.root, size, self.limit, lambda sha256: self._alone(_fetching(sha256), wait=False))
            if shutil.disk_usage(self.root).free < size:
                raise self._full(size)

    def _full(self, size: int) -> StoreUnavailable:
        return StoreUnavailable(
            f"the disk of the local cache has no room for {_mib(size)} MiB more: "
            f"{_mib(shutil.disk_usage(self.root).free)} are free, and the files in the cache are in use",
            where=str(self.root),
            remedy="Free some space there, or point FT_CACHE (or FT_SCRATCH, if it is not set) at a larger disk.",
        )

    @contextmanager
    def _alone(self, name: str, *, wait: bool = True) -> Iterator[None]:
        """Exclusive lock ``name`` across processes and threads. Without ``wait``, raises BlockingIOError if taken."""
        self._own()
        with (self.root / ".locks" / name).open("wb") as file:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            yield

    def _own(self) -> None:
        """Create the folder for this user alone. Raises UserError if others could write to it."""
        self.root.parent.mkdir(parents=True, exist_ok=True)
        self.root.mkdir(mode=0o700, exist_ok=True)
        if not is_private(self.root):
            raise UserError(
                "the local cache is a link, belongs to another user, or is writable by others",
                where=str(self.root),
                remedy="Point FT_CACHE at another folder, or remove this one.",
            )
        (self.root / ".locks").mkdir(exist_ok=True)


def _require_inside(artifact: Artifact, name: str) -> None:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise _damaged(artifact, f"{name!r} is not the name of a file in a folder")


def _damaged(artifact: Artifact, what: str) -> CorruptArtifact:
    return CorruptArtifact(
        f"the manifest cannot be right: {what}",
        where=str(artifact.address),
        remedy="Restore the manifest from the bucket's versions or a backup.",
    )


def _fetching(sha256: str) -> str:
    """Name of the lock for fetching a file. There are 256, as a lock file cannot be removed while others may wait."""
    return f"file-{sha256[:2]}"


def _mib(size: int) -> int:
    return -(-size // (1 << 20))
