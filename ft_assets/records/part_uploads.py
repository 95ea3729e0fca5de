"""Uploads in parts, before they are files; in ``<tenant>/uploads/<id>/``:

upload.json           what was announced
parts/<part>          bytes
ended.json            the file that it became, or that it was cancelled; create-only
"""

from typing import ClassVar

from pydantic import Field

from ft_assets.records.sorted_ids import is_id, time_of
from ft_resources.errors import NotFound
from ft_resources.records import Record
from ft_resources.store import Store

FOLDER = "uploads"
LIFETIME_S = 3600.0
"""After that nothing can be added to an upload; its parts are removed with the next look at it."""


class PartUpload(Record):
    """An upload that was announced."""

    WHAT: ClassVar[str] = "the record of an upload"

    id: str
    filename: str
    purpose: str
    bytes: int = Field(ge=1, description="Of all parts together.")
    mime_type: str
    actor: str


class UploadEnd(Record):
    """How an upload ended: the id of its file, "" where it was cancelled."""

    WHAT: ClassVar[str] = "the record of an upload's end"

    file: str = ""


def folder_of(tenant: str, upload_id: str) -> str:
    return f"{tenant}/{FOLDER}/{upload_id}"


def part_path(tenant: str, upload_id: str, part_id: str) -> str:
    return f"{folder_of(tenant, upload_id)}/parts/{part_id}"


def get_upload(store: Store, tenant: str, upload_id: str) -> PartUpload:
    """The upload. Raises NotFound, also for one of another tenant."""
    path = f"{folder_of(tenant, upload_id)}/upload.json"
    found = PartUpload.find(store, path) if is_id(upload_id) else None
    if found is None:
        raise NotFound(f"there is no upload upload_{upload_id}", where="upload", remedy="Begin a new one.")
    return found


def find_end(store: Store, tenant: str, upload: PartUpload) -> UploadEnd | None:
    """How it ended, None while parts may be added."""
    return UploadEnd.find(store, f"{folder_of(tenant, upload.id)}/ended.json")


def end(store: Store, tenant: str, upload: PartUpload, how: UploadEnd) -> UploadEnd:
    """Record the end, the first of which stands, and remove the parts."""
    first = how.create_or_get(store, f"{folder_of(tenant, upload.id)}/ended.json")
    for entry in list(store.entries(f"{folder_of(tenant, upload.id)}/parts")):
        store.delete(entry.path)
    return first


def has_expired(upload: PartUpload, now: float) -> bool:
    return now - time_of(upload.id) > LIFETIME_S
