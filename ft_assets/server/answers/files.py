"""Files and uploads."""

from typing import Literal

from ft_assets.server.answers.base import Object


class File(Object):
    """A file. Times are seconds since the epoch."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int | None
    filename: str
    purpose: str
    status: Literal["processed"]
    status_details: None


class DeletedFile(Object):
    """What is left of a file."""

    id: str
    object: Literal["file"]
    deleted: Literal[True]


class Upload(Object):
    """A file that comes in parts."""

    id: str
    object: Literal["upload"]
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: str
    status: Literal["pending", "completed", "cancelled", "expired"]
    file: File | None


class UploadPart(Object):
    """A part that was kept."""

    id: str
    object: Literal["upload.part"]
    created_at: int
    upload_id: str
