"""``/v1/uploads``: large files in parts."""

from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ft_assets import api
from ft_assets.api import Identity, UploadState
from ft_assets.records.sorted_ids import time_of
from ft_assets.server.answers.base import answered
from ft_assets.server.answers.files import Upload, UploadPart
from ft_assets.server.context import Context, Ctx, Member
from ft_assets.server.files import file_object
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.multipart import read_form
from ft_resources.errors import BadData

UPLOAD, PART = "upload_", "part_"
router = APIRouter(prefix="/v1/uploads", route_class=KeyFirst)


class Begin(BaseModel):
    """What is announced."""

    model_config = ConfigDict(extra="forbid")

    bytes: Annotated[int, Field(ge=1)]
    filename: Annotated[str, Field(min_length=1, max_length=120)]
    mime_type: Annotated[str, Field(max_length=200)]
    purpose: Annotated[str, Field(max_length=40)]


class Complete(BaseModel):
    """The parts in their order."""

    model_config = ConfigDict(extra="forbid")

    part_ids: Annotated[list[Annotated[str, Field(pattern=r"^part_[0-9a-f]{24}$")]], Field(max_length=10_000)]
    md5: Annotated[str, Field(max_length=32)] | None = None


def upload_object(state: UploadState) -> dict[str, Any]:
    """OpenAI's upload object."""
    upload = state.upload
    return {
        "id": f"{UPLOAD}{upload.id}",
        "object": "upload",
        "bytes": upload.bytes,
        "created_at": int(time_of(upload.id)),
        "expires_at": int(state.expires_at),
        "filename": upload.filename,
        "purpose": upload.purpose,
        "status": state.status,
        "file": file_object(state.file) if state.file else None,
    }


@router.post("", responses=answered(Upload))
def begin(body: Begin, context: Ctx, caller: Member) -> dict[str, Any]:
    state = api.begin_upload(
        caller.tenant,
        filename=body.filename,
        purpose=body.purpose,
        size=body.bytes,
        mime_type=body.mime_type,
        actor=caller.actor,
        store=context.store,
    )
    return upload_object(state)


@router.post("/{upload_id}/parts", responses=answered(UploadPart))
async def add_part(upload_id: str, request: Request, context: Ctx, caller: Member) -> dict[str, Any]:
    """Add the form field ``data``."""
    return await context.uploads.run(caller.tenant, lambda: _add_part(upload_id, request, context, caller))


def _add_part(upload_id: str, request: Request, context: Context, caller: Identity) -> dict[str, Any]:
    name = upload_id.removeprefix(UPLOAD)

    def keep(_: str, chunks: Iterator[bytes]) -> str:
        return api.add_part(caller.tenant, name, chunks, store=context.store)

    # A part that is kept of a damaged body stays unnamed, and goes with the upload.
    part = read_form(request, "data", keep, lambda _: None).file
    if part is None:
        raise BadData("no part was sent", where="data", remedy="Send it as the form field `data`.")
    created = int(time_of(part))
    return {"id": f"{PART}{part}", "object": "upload.part", "created_at": created, "upload_id": f"{UPLOAD}{name}"}


@router.post("/{upload_id}/complete", responses=answered(Upload))
def complete(upload_id: str, body: Complete, context: Ctx, caller: Member) -> dict[str, Any]:
    parts = [part.removeprefix(PART) for part in body.part_ids]
    name = upload_id.removeprefix(UPLOAD)
    return upload_object(api.complete_upload(caller.tenant, name, parts, md5=body.md5 or "", store=context.store))


@router.post("/{upload_id}/cancel", responses=answered(Upload))
def cancel(upload_id: str, context: Ctx, caller: Member) -> dict[str, Any]:
    return upload_object(api.cancel_upload(caller.tenant, upload_id.removeprefix(UPLOAD), store=context.store))
