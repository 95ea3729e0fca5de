"""Rows that become a dataset version: sent in one request, or to a signed address and completed afterwards."""

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlencode

from ft_assets.api.datasets import add_dataset
from ft_assets.api.defaults import Orchestrator, store_or_default
from ft_assets.api.files import MOST_BYTES, check_filename
from ft_assets.api.part_uploads import UploadState, begin_upload, require_pending, state_of
from ft_assets.control.access.api_keys import Access
from ft_assets.control.access.links import LIFETIME_S, Signature
from ft_assets.control.registry.adding import look_at_file, parse_name
from ft_assets.control.registry.versions import DatasetVersion, latest_version
from ft_assets.records import part_uploads
from ft_assets.records.jobs import JobKey, key_path
from ft_assets.records.part_uploads import CONTENT, UploadedDataset, UploadEnd, part_path
from ft_assets.records.sorted_ids import new_id
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_assets.workers.datasets.intake.kinds import HEAD_BYTES, check_head
from ft_resources.canonical import digest, sha256_file
from ft_resources.errors import BadData, KeyTaken, NotPermitted
from ft_resources.presigned import presigned_put
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class UploadPlace:
    """``PUT`` the bytes to ``url`` before ``expires_at`` (seconds since the epoch), with these ``headers``. The URL is
    of the bucket; a path of the server, with its query, where the store is no bucket that signs."""

    url: str
    headers: dict[str, str]
    expires_at: int


def begin_dataset(
    tenant: str, name: str, *, filename: str, size: int, actor: str, key: str = "", store: Store | None = None
) -> UploadState:
    """Announce rows for the next version of ``name`` (``tenant.name``). With the same ``key`` it is the same upload.

    Raises UserError for a name or file that could not become one, and KeyTaken for a key that was used for others.
    """
    store = store_or_default(store, create=True)
    parse_name(name)
    upload_id = new_id()
    if key:
        upload_id = _owner(store, tenant, key, JobKey(job=upload_id, body=digest([name, filename, size])))
    return begin_upload(
        tenant,
        filename=filename,
        purpose="fine-tune",
        size=size,
        mime_type="",
        actor=actor,
        dataset=name,
        upload_id=upload_id,
        store=store,
    )


def dataset_upload(tenant: str, upload_id: str, *, store: Store | None = None) -> UploadState:
    """The state of a dataset's upload. Raises NotFound."""
    store = store_or_default(store)
    upload = part_uploads.get_upload(store, tenant, upload_id)
    if not upload.dataset:
        raise part_uploads.no_upload(upload_id)
    return state_of(store, tenant, upload)


def expected_version(name: str, *, store: Store | None = None) -> int:
    """The number that rows which are completed now get, unless they are a version already."""
    first = parse_name(name)
    latest = latest_version(store_or_default(store), first.tenant, first.name)
    return latest.version + 1 if latest else first.version


def place_of_upload(tenant: str, state: UploadState, path: str, *, access: Access, store: Store) -> UploadPlace:
    """Where the bytes of a pending upload go: an address of the bucket, or ``path`` of the server. It takes them once,
    and as many as were announced. Raises StoreUnavailable."""
    upload, until = state.upload, int(time.time()) + LIFETIME_S
    target = part_path(tenant, upload.id, CONTENT)
    if signed := presigned_put(store, target, size=upload.bytes, lifetime_s=LIFETIME_S):
        return UploadPlace(url=signed.url, headers=dict(signed.headers), expires_at=until)
    made = access.sign(_signed(tenant, upload.id))
    query = urlencode({"tenant": tenant, **vars(made)})
    # A bucket demands them, and whoever sends them need not know which of both it is.
    headers = {"Content-Length": str(upload.bytes), "If-None-Match": "*"}
    return UploadPlace(url=f"{path}?{query}", headers=headers, expires_at=made.expires)


def open_place(tenant: str, upload_id: str, given: Signature, *, access: Access, store: Store) -> UploadState:
    """The upload that a signed address of the server takes bytes for. Raises NotPermitted where the signature does not
    hold, and BadData where the upload has ended."""
    try:
        access.check_link(_signed(tenant, upload_id), given)
    except NotPermitted as error:
        raise NotPermitted(error.what, where=error.where, remedy="Announce the upload again.") from None
    state = dataset_upload(tenant, upload_id, store=store)
    require_pending(state)
    return state


def receive_dataset(tenant: str, state: UploadState, chunks: Iterator[bytes], *, store: Store) -> None:
    """Keep the bytes of an upload. Raises BadData where they were sent before, or are not as many as was announced;
    nothing is kept of these then."""
    path, announced = part_path(tenant, state.upload.id, CONTENT), state.upload.bytes
    if store.exists(path):
        raise BadData("the bytes were sent before", where="upload", remedy="Complete it, or begin a new one.")

    def counted() -> Iterator[bytes]:
        size = 0
        for chunk in chunks:
            size += len(chunk)
            if size > announced:
                break
            yield chunk
        _require_size(size, announced)

    store.write(path, counted())


def complete_dataset(
    tenant: str, upload_id: str, *, store: Store | None = None, orchestrator: Orchestrator | None = None
) -> DatasetVersion | None:
    """Make the version of the bytes that were sent; None where it was made before. The same bytes with the same columns
    are the same version.

    Raises NotFound, and BadData where the upload has ended, its bytes are missing or are not as many as was announced,
    and where no version can be made of them. It stays as it is then.
    """
    store = store_or_default(store)
    state = dataset_upload(tenant, upload_id, store=store)
    if state.dataset:
        return None
    require_pending(state)
    upload = state.upload
    with tempfile.TemporaryDirectory(prefix="ft-dataset-") as scratch:
        path = Path(scratch, upload.filename)
        try:
            store.download(part_path(tenant, upload_id, CONTENT), path)
        except FileNotFoundError:
            raise BadData("no bytes were sent", where="upload", remedy="PUT them to the upload's address.") from None
        # Nothing hinders a bucket other than S3 from taking any number.
        _require_size(path.stat().st_size, upload.bytes)
        added = add_rows(
            path, upload.dataset, actor=upload.actor, upload=upload.id, store=store, orchestrator=orchestrator
        )
    part_uploads.end(store, tenant, upload, UploadEnd(dataset=str(added.key)))
    return added


def receive_rows(filename: str, chunks: Iterator[bytes], folder: Path) -> Path:
    """A file in ``folder`` with the bytes as they come. Raises BadData for one that no dataset could be made of."""
    check_filename(filename)
    path, size = folder / filename, 0
    with path.open("wb") as file:
        for chunk in chunks:
            size += len(chunk)
            if size > MOST_BYTES:
                raise BadData("the file is over 50 GiB", where="file", remedy="Upload it in several files.")
            file.write(chunk)
    return path


def add_rows(
    path: Path,
    name: str,
    *,
    actor: str,
    upload: str = "",
    key: str = "",
    store: Store | None = None,
    orchestrator: Orchestrator | None = None,
) -> DatasetVersion:
    """Add a file, which came by ``upload`` if it has an id, as the next version of ``name``; its columns are read as a
    job of the same file would read them. Raises as ``add_dataset``, and KeyTaken for a ``key`` that was used for
    others."""
    store = store_or_default(store, create=True)
    kind = check_filename(path.name)
    with path.open("rb") as file:
        check_head(file.read(HEAD_BYTES), kind, path.name)
    if key:
        body = digest([name, path.name, sha256_file(path)])
        _owner(store, parse_name(name).tenant, key, JobKey(job=upload, body=body))
    try:
        form, policy, _ = look_at_file(path)
    except BadData:
        # Adding the file says what is wrong, and where.
        form, policy = "", DatasetPolicy()
    added = add_dataset(path, name, policy=policy, actor=actor, store=store, orchestrator=orchestrator)
    UploadedDataset(upload=upload, form=form).put(store, added.key)
    return added


def _owner(store: Store, tenant: str, key: str, mine: JobKey) -> str:
    """The upload that a key belongs to. Raises KeyTaken where it was used for another."""
    # No job's key has a NUL, see ``control/jobs/create.py``.
    owner = mine.create_or_get(store, key_path(tenant, f"\0dataset {key}"))
    if owner.body != mine.body:
        what = "this idempotency key was used for another upload"
        raise KeyTaken(what, where="Idempotency-Key", remedy="Repeat that request, or choose another key.")
    return owner.job


def _require_size(size: int, announced: int) -> None:
    if size != announced:
        came = f"{size} bytes came" if size < announced else "more bytes came"
        raise BadData(f"{came}, and {announced} were announced", where="bytes", remedy="Begin a new upload.")


def _signed(tenant: str, upload_id: str) -> str:
    # No address of an artifact, which links are signed for, has a space.
    return f"PUT {tenant} {upload_id}"
