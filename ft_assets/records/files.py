"""Files that tenants uploaded over HTTP: the bytes first, then a create-only record. Without a record there is no file.

``<tenant>/files/<id>/content`` are the bytes; ``<tenant>/file_records/<part>/<id>.json`` says what they are (see
sorted_ids). A deletion removes the record first. Datasets are not affected: a dataset version has its own copy.
"""

from collections.abc import Iterator
from typing import ClassVar

from pydantic import Field

from ft_assets.records import sorted_ids
from ft_assets.records.sorted_ids import is_id
from ft_resources.errors import NotFound
from ft_resources.records import Record
from ft_resources.store import Store

FILES, FOLDER = "files", "file_records"


class UploadedFile(Record):
    """An uploaded file."""

    WHAT: ClassVar[str] = "the record of a file"

    id: str
    filename: str = Field(description="As it was given.")
    purpose: str
    bytes: int
    sha256: str
    actor: str
    created_at: float = Field(description="Seconds since the epoch.")
    expires_at: float | None = Field(default=None, description="From then on it is as if deleted.")


def content_path(tenant: str, file_id: str) -> str:
    return f"{tenant}/{FILES}/{file_id}/content"


def record_path(tenant: str, file_id: str) -> str:
    return sorted_ids.record_path(f"{tenant}/{FOLDER}", file_id)


def get_file(store: Store, tenant: str, file_id: str, *, now: float) -> UploadedFile:
    """The file. Raises NotFound, also for one that has expired or that another tenant uploaded."""
    found = UploadedFile.find(store, record_path(tenant, file_id)) if is_id(file_id) else None
    if found is None or (found.expires_at is not None and found.expires_at <= now):
        raise NotFound(f"there is no file file-{file_id}", where="file", remedy="List files to see their ids.")
    return found


def file_ids(store: Store, tenant: str, after: str = "") -> Iterator[str]:
    """Ids of a tenant's files, the newest first; those older than the file ``after`` where it is given."""
    return sorted_ids.ids_in(store, f"{tenant}/{FOLDER}", after)


def delete_file(store: Store, tenant: str, file_id: str) -> None:
    store.delete(record_path(tenant, file_id))
    store.delete(content_path(tenant, file_id))
