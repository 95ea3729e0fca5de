"""Uploads in parts, before they are files, and of datasets' rows; in ``<tenant>/uploads/<id>/``:

upload.json           what was announced
parts/<part>          bytes; parts/content: all of a dataset's
ended.json            the file or version that it became, or that it was cancelled; create-only

The end is recorded first and then carried out: the file's own record makes it visible, and the parts are deleted last.
If parts are left, a process died in between, and the next look completes it.
"""

from typing import ClassVar, Self

from pydantic import Field

from ft_assets.records.files import UploadedFile, record_path
from ft_assets.records.sorted_ids import is_id, time_of
from ft_assets.settings.keys import DatasetKey
from ft_resources.errors import NotFound
from ft_resources.records import Record
from ft_resources.store import Store
from ft_resources.strict_model import added_field

FOLDER = "uploads"
LIFETIME_S = 3600.0
"""After this time nothing can be added to an upload; its parts are removed with the next look at it."""


class PartUpload(Record):
    """An upload that was announced."""

    WHAT: ClassVar[str] = "the record of an upload"

    id: str
    filename: str
    purpose: str
    bytes: int = Field(ge=1, description="Of all parts together.")
    mime_type: str
    actor: str
    dataset: str = added_field("", description="The dataset that it becomes a version of, tenant.name; empty: a file.")


class UploadEnd(Record):
    """How an upload ended: the id of its file or the key of its dataset version, both "" where it was cancelled;
    ``record`` is the file's own."""

    WHAT: ClassVar[str] = "the record of an upload's end"

    file: str = ""
    record: UploadedFile | None = added_field(None)
    dataset: str = added_field("")


class UploadedDataset(Record):
    """The newest upload that became a version; the next one overwrites it."""

    WHAT: ClassVar[str] = "the record of a dataset's upload"

    upload: str = Field(description="Its id; empty for rows that came with the request.")
    form: str = Field(description="What the rows teach, by the first of them; empty if they do not say.")

    def put(self, store: Store, key: DatasetKey) -> None:
        store.put(_path_of_version(key), self.data())

    @classmethod
    def of(cls, store: Store, key: DatasetKey) -> Self | None:
        return cls.find(store, _path_of_version(key))


def _path_of_version(key: DatasetKey) -> str:
    return f"{key.tenant}/uploaded_datasets/{key}.json"


def folder_of(tenant: str, upload_id: str) -> str:
    return f"{tenant}/{FOLDER}/{upload_id}"


CONTENT = "content"
"""The one part of a dataset's upload."""


def part_path(tenant: str, upload_id: str, part_id: str) -> str:
    return f"{folder_of(tenant, upload_id)}/parts/{part_id}"


def get_upload(store: Store, tenant: str, upload_id: str) -> PartUpload:
    """The upload. Raises NotFound, also for one of another tenant."""
    path = f"{folder_of(tenant, upload_id)}/upload.json"
    found = PartUpload.find(store, path) if is_id(upload_id) else None
    if found is None:
        raise no_upload(upload_id)
    return found


def no_upload(upload_id: str) -> NotFound:
    return NotFound(f"there is no upload {upload_id!r}", where="upload", remedy="Begin a new one.")


def find_end(store: Store, tenant: str, upload: PartUpload) -> UploadEnd | None:
    """How it ended, None while parts may be added."""
    return UploadEnd.find(store, f"{folder_of(tenant, upload.id)}/ended.json")


def end(store: Store, tenant: str, upload: PartUpload, how: UploadEnd) -> UploadEnd:
    """Record the end and carry it out; if an end was recorded before, that one is carried out."""
    first = how.create_or_get(store, f"{folder_of(tenant, upload.id)}/ended.json")
    carry_out(store, tenant, upload, first)
    return first


def carry_out(store: Store, tenant: str, upload: PartUpload, ended: UploadEnd) -> None:
    """Make the completed file visible, if there is one, and remove the parts; does nothing if no part is left."""
    parts = list(store.entries(f"{folder_of(tenant, upload.id)}/parts"))
    if parts and ended.record is not None:
        ended.record.create(store, record_path(tenant, ended.record.id))
    for entry in parts:
        store.delete(entry.path)


def has_expired(upload: PartUpload, now: float) -> bool:
    return now - time_of(upload.id) > LIFETIME_S
