"""Files that a tenant uploads before it asks for jobs: rows to train on, or to validate with."""

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

from ft_assets.api.defaults import store_or_default
from ft_assets.records import files
from ft_assets.records.files import UploadedFile
from ft_assets.records.sorted_ids import is_id, new_id, time_of
from ft_assets.workers.datasets.intake.kinds import HEAD_BYTES, Kind, check_head, kind_of
from ft_resources.errors import BadData, NotFound
from ft_resources.remembered import Remembered
from ft_resources.store import Store

PURPOSES = ("fine-tune", "user_data", "evals")
MOST_BYTES = 50 << 30
_LONGEST_NAME, _MOST_NAME_BYTES = 120, 200
# An upload of 50 GiB takes less.
_ABANDONED_S = 86_400.0
_RECORDS: Remembered[UploadedFile] = Remembered(100_000)


def add_file(
    tenant: str,
    filename: str,
    chunks: Iterator[bytes],
    *,
    actor: str,
    store: Store | None = None,
) -> "IncompleteFile":
    """Store the bytes of a file as they arrive. The file exists only after ``IncompleteFile.complete``.

    Name and first bytes are checked before anything is stored. Raises BadData for a file that no dataset could be made
    of, and for one over 50 GiB; what ``chunks`` raises; StoreUnavailable.
    """
    store = store_or_default(store, create=True)
    kind = check_filename(filename)
    head = b""
    for chunk in chunks:
        head += chunk
        if len(head) >= HEAD_BYTES:
            break
    check_head(head[:HEAD_BYTES], kind, filename)
    file_id, counted = new_id(), _Counted(filename)
    store.write(files.content_path(tenant, file_id), counted.through(chain((head,), chunks)))
    record = UploadedFile(
        id=file_id,
        filename=filename,
        purpose="",
        bytes=counted.size,
        sha256=counted.sha256.hexdigest(),
        actor=actor,
        created_at=time.time(),
    )
    return IncompleteFile(store=store, tenant=tenant, record=record)


def check_filename(filename: str) -> Kind:
    """The kind of a file with this name. Raises BadData for one that no dataset could have."""
    shown = filename.isprintable() and "/" not in filename and filename[:1] not in (".", "-")
    if not filename or not shown or len(filename) > _LONGEST_NAME or len(filename.encode()) > _MOST_NAME_BYTES:
        raise BadData(
            f"{filename[:200]!r} cannot be the name of a file",
            where="file",
            remedy=f"Use at most {_LONGEST_NAME} printable characters, no slash, and no dot or hyphen in front.",
        )
    return kind_of(filename)


@dataclass(frozen=True, kw_only=True)
class IncompleteFile:
    """A file whose bytes are stored, and which is not visible yet."""

    store: Store
    tenant: str
    record: UploadedFile

    def complete(self, purpose: str, *, lifetime_s: float | None = None) -> UploadedFile:
        """Make it visible, for ``lifetime_s`` seconds or for good. Raises as ``finished`` does."""
        record = self.finished(purpose, lifetime_s=lifetime_s)
        record.create(self.store, files.record_path(self.tenant, record.id))
        return record

    def finished(self, purpose: str, *, lifetime_s: float | None = None) -> UploadedFile:
        """The record that makes it visible once it is written. Raises BadData for an unknown purpose, and removes the
        bytes."""
        if purpose not in PURPOSES:
            self.discard()
            raise BadData(
                f"{purpose!r} is not a purpose of files here",
                where="purpose",
                remedy=f"Use one of {', '.join(PURPOSES)}.",
            )
        expires_at = None if lifetime_s is None else self.record.created_at + lifetime_s
        return self.record.model_copy(update={"purpose": purpose, "expires_at": expires_at})

    def discard(self) -> None:
        files.delete_file(self.store, self.tenant, self.record.id)


class _Counted:
    """Passes bytes on, and computes their size and hash."""

    def __init__(self, filename: str) -> None:
        self.filename, self.size, self.sha256 = filename, 0, hashlib.sha256()

    def through(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            self.size += len(chunk)
            if self.size > MOST_BYTES:
                raise BadData("the file is over 50 GiB", where=self.filename, remedy="Upload it in several files.")
            self.sha256.update(chunk)
            yield chunk


def find_file(tenant: str, file_id: str, *, store: Store | None = None) -> UploadedFile:
    """A tenant's file. Raises NotFound, also for one that has expired."""
    return files.get_file(store_or_default(store), tenant, file_id, now=time.time())


def read_file(tenant: str, file_id: str, *, store: Store | None = None) -> Iterator[bytes]:
    """Its bytes. Raises NotFound."""
    store = store_or_default(store)
    record = find_file(tenant, file_id, store=store)
    try:
        return store.read(files.content_path(tenant, record.id))
    except FileNotFoundError:
        raise NotFound(f"there is no file file-{file_id}", where="file", remedy="Upload it again.") from None


def fetch_file(tenant: str, file_id: str, folder: Path, *, store: Store | None = None) -> Path:
    """A copy of it under its own name in ``folder``, which is made. Raises NotFound."""
    store = store_or_default(store)
    folder.mkdir()
    path = folder / find_file(tenant, file_id, store=store).filename
    with path.open("wb") as file:
        for chunk in read_file(tenant, file_id, store=store):
            file.write(chunk)
    return path


def file_ids(tenant: str, *, after: str = "", store: Store | None = None) -> Iterator[str]:
    """Ids of a tenant's files, the newest first, those older than the file ``after`` where it is given; some may have
    expired."""
    return files.file_ids(store_or_default(store), tenant, after)


def delete_file(tenant: str, file_id: str, *, store: Store | None = None) -> UploadedFile:
    """Remove a file, also one that has expired. Datasets that were made of it keep their own copy. Raises NotFound."""
    store = store_or_default(store)
    record = files.get_file(store, tenant, file_id, now=0.0)
    files.delete_file(store, tenant, record.id)
    return record


def remove_expired_files(*, store: Store | None = None) -> int:
    """Remove expired files of all tenants, and leftovers of uploads that broke off more than a day ago. Returns their
    number."""
    store, now = store_or_default(store), time.time()
    gone = [
        (tenant, file_id)
        for tenant in store.tenants()
        for file_id in sorted({entry.path.split("/")[2] for entry in store.entries(f"{tenant}/{files.FILES}")})
        if is_id(file_id) and _is_over(store, tenant, file_id, now)
    ]
    for tenant, file_id in gone:
        files.delete_file(store, tenant, file_id)
    return len(gone)


def _is_over(store: Store, tenant: str, file_id: str, now: float) -> bool:
    path = files.record_path(tenant, file_id)
    record = _RECORDS.get(store, path, lambda: UploadedFile.find(store, path))
    if record is None:
        return now - time_of(file_id) > _ABANDONED_S
    return record.expires_at is not None and record.expires_at <= now
