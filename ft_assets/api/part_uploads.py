"""Uploads in parts: announce a file, send its parts in any order, complete it."""

import hashlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ft_assets.api.defaults import store_or_default
from ft_assets.api.files import MOST_BYTES, PURPOSES, add_file, check_filename, find_file
from ft_assets.records import part_uploads
from ft_assets.records.files import UploadedFile
from ft_assets.records.part_uploads import LIFETIME_S, PartUpload, UploadEnd
from ft_assets.records.sorted_ids import is_id, new_id
from ft_resources.errors import BadData, NotFound
from ft_resources.store import Store

_LOOKED_AT_S = 7 * 86_400.0


@dataclass(frozen=True, kw_only=True)
class UploadState:
    """An upload; ``status`` is pending, completed (with ``file``, or ``dataset``, the key of a version), cancelled or
    expired. Times in seconds."""

    upload: PartUpload
    status: str
    file: UploadedFile | None
    expires_at: float
    dataset: str = ""


def begin_upload(
    tenant: str,
    *,
    filename: str,
    purpose: str,
    size: int,
    mime_type: str,
    actor: str,
    dataset: str = "",
    upload_id: str = "",
    store: Store | None = None,
) -> UploadState:
    """Announce a file of ``size`` bytes, or the rows of ``dataset`` (``tenant.name``). With an ``upload_id`` that was
    begun before it is the same upload. Raises BadData for what could not become a file; nothing is kept then."""
    store = store_or_default(store, create=True)
    check_filename(filename)
    if purpose not in PURPOSES:
        raise BadData(f"{purpose!r} is not a purpose", where="purpose", remedy=f"Use one of {', '.join(PURPOSES)}.")
    if not 1 <= size <= MOST_BYTES:
        raise BadData("the file is empty, or over 50 GiB", where="bytes", remedy="Upload it in several files.")
    upload = PartUpload(
        id=upload_id or new_id(),
        filename=filename,
        purpose=purpose,
        bytes=size,
        mime_type=mime_type,
        actor=actor,
        dataset=dataset,
    )
    upload = upload.create_or_get(store, f"{part_uploads.folder_of(tenant, upload.id)}/upload.json")
    return state_of(store, tenant, upload)


def upload_state(tenant: str, upload_id: str, *, store: Store | None = None) -> UploadState:
    """The state of a file's upload. Raises NotFound."""
    store = store_or_default(store)
    upload = part_uploads.get_upload(store, tenant, upload_id)
    if upload.dataset:
        raise part_uploads.no_upload(upload_id)
    return state_of(store, tenant, upload)


def state_of(store: Store, tenant: str, upload: PartUpload) -> UploadState:
    """The state of any upload; what was recorded of its end and not carried out is."""
    now = time.time()
    ended = part_uploads.find_end(store, tenant, upload)
    if ended is None and part_uploads.has_expired(upload, now):
        ended = part_uploads.end(store, tenant, upload, UploadEnd())
    elif ended is not None:
        part_uploads.carry_out(store, tenant, upload, ended)
    file, dataset = None, ended.dataset if ended else ""
    if dataset:
        status = "completed"
    elif ended is not None and ended.file:
        status, file = "completed", find_file(tenant, ended.file, store=store)
    else:
        expired = part_uploads.has_expired(upload, now)
        status = "pending" if ended is None else "expired" if expired else "cancelled"
    until = part_uploads.time_of(upload.id) + LIFETIME_S
    return UploadState(upload=upload, status=status, file=file, expires_at=until, dataset=dataset)


def add_part(tenant: str, upload_id: str, chunks: Iterator[bytes], *, store: Store | None = None) -> str:
    """Store a part; its id, which completion needs. Raises BadData where the upload has ended, or the part is more than
    was announced."""
    store = store_or_default(store)
    state = upload_state(tenant, upload_id, store=store)
    require_pending(state)
    there = store.entries(f"{part_uploads.folder_of(tenant, upload_id)}/parts")
    part_id, size = new_id(), sum(entry.size for entry in there)

    def counted() -> Iterator[bytes]:
        nonlocal size
        for chunk in chunks:
            size += len(chunk)
            if size > state.upload.bytes:
                raise BadData("the parts are larger than the whole upload", where="data", remedy="Begin a new upload.")
            yield chunk

    store.write(part_uploads.part_path(tenant, upload_id, part_id), counted())
    return part_id


def complete_upload(
    tenant: str, upload_id: str, part_ids: Sequence[str], *, md5: str = "", store: Store | None = None
) -> UploadState:
    """Make the file of the parts, in the order of ``part_ids``. Completing again gives the same file.

    Raises BadData where parts are missing, the size or ``md5`` is another, or the bytes are not what the name says; the
    upload stays as it is then.
    """
    store = store_or_default(store)
    state = upload_state(tenant, upload_id, store=store)
    if state.status == "completed":
        return state
    require_pending(state)
    if len(set(part_ids)) < len(part_ids):
        raise BadData("a part is named twice", where="part_ids", remedy="Name each part by its id, once.")
    upload, hashed = state.upload, hashlib.md5(usedforsecurity=False)

    def chunks(reader: ThreadPoolExecutor) -> Iterator[bytes]:
        for part_id in part_ids:
            try:
                read = reader.submit(store.read, part_uploads.part_path(tenant, upload_id, part_id)).result()
            except FileNotFoundError:
                what = f"there is no part {part_id} of this upload"
                raise BadData(what, where="part_ids", remedy="Name each part by its id, once.") from None
            while (chunk := reader.submit(next, read, b"").result()) != b"":
                hashed.update(chunk)
                yield chunk

    # The store's client cannot read in the thread in which it writes.
    with ThreadPoolExecutor(1) as reader:
        file = add_file(tenant, upload.filename, chunks(reader), actor=upload.actor, store=store)
    if file.record.bytes != upload.bytes or (md5 and md5.lower() != hashed.hexdigest()):
        file.discard()
        what = f"the parts have {file.record.bytes} bytes, and {upload.bytes} were announced"
        raise BadData(
            "the bytes have another MD5" if file.record.bytes == upload.bytes else what,
            where="md5" if file.record.bytes == upload.bytes else "part_ids",
            remedy="Add the missing parts, or begin a new upload.",
        )
    made = file.finished(upload.purpose)
    first = part_uploads.end(store, tenant, upload, UploadEnd(file=made.id, record=made))
    if first.file != made.id:
        # Somebody else ended it in the same moment.
        file.discard()
    return upload_state(tenant, upload_id, store=store)


def cancel_upload(tenant: str, upload_id: str, *, store: Store | None = None) -> UploadState:
    """Cancel an upload, and remove its parts. Raises BadData for one that is completed."""
    store = store_or_default(store)
    state = upload_state(tenant, upload_id, store=store)
    if state.status == "completed":
        raise BadData("the upload is completed", where="upload", remedy="Delete its file instead.")
    if state.status == "pending":
        part_uploads.end(store, tenant, state.upload, UploadEnd())
    return upload_state(tenant, upload_id, store=store)


def end_expired_uploads(*, store: Store | None = None) -> None:
    """Remove the parts of uploads of all tenants that nobody completed in time."""
    store, now = store_or_default(store), time.time()
    for tenant in store.tenants():
        for upload_id in store.folders(f"{tenant}/{part_uploads.FOLDER}"):
            # Older ones were checked before.
            if is_id(upload_id) and LIFETIME_S < now - part_uploads.time_of(upload_id) < _LOOKED_AT_S:
                try:
                    state_of(store, tenant, part_uploads.get_upload(store, tenant, upload_id))
                except NotFound:
                    # Written to a signed address of the bucket after its tenant was erased.
                    for entry in store.entries(part_uploads.folder_of(tenant, upload_id)):
                        store.delete(entry.path)


def require_pending(state: UploadState) -> None:
    """Raise BadData where the upload has ended."""
    if state.status != "pending":
        raise BadData(f"the upload is {state.status}", where="upload", remedy="Begin a new one.")
