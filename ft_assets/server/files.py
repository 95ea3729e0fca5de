"""``/v1/files``: upload, list, retrieve, read and delete files."""

import contextlib
from collections.abc import Iterator
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from ft_assets import api
from ft_assets.api import Identity, IncompleteFile, UploadedFile
from ft_assets.server.answers.base import Page, answered
from ft_assets.server.answers.files import DeletedFile, File
from ft_assets.server.context import Context, Ctx, Member, Viewer
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.multipart import read_form
from ft_assets.server.pages import After, Limit, Order, page_of
from ft_assets.server.results import is_result, read_result
from ft_resources.errors import BadData, NotFound

PREFIX = "file-"
router = APIRouter(prefix="/v1/files", route_class=KeyFirst)


def file_object(file: UploadedFile) -> dict[str, Any]:
    """OpenAI's file object."""
    return {
        "id": f"{PREFIX}{file.id}",
        "object": "file",
        "bytes": file.bytes,
        "created_at": int(file.created_at),
        "expires_at": None if file.expires_at is None else int(file.expires_at),
        "filename": file.filename,
        "purpose": file.purpose,
        "status": "processed",
        "status_details": None,
    }


@router.post("", responses=answered(File))
async def upload(request: Request, context: Ctx, caller: Member) -> dict[str, Any]:
    """Upload a file as the form field ``file``, with its ``purpose``."""
    return await context.uploads.run(caller.tenant, lambda: _upload(request, context, caller))


def _upload(request: Request, context: Context, caller: Identity) -> dict[str, Any]:
    def keep(filename: str, chunks: Iterator[bytes]) -> IncompleteFile:
        return api.add_file(caller.tenant, filename, chunks, actor=caller.actor, store=context.store)

    form = read_form(request, "file", keep, IncompleteFile.discard)
    if form.file is None:
        raise BadData("no file was sent", where="file", remedy="Send it as the form field `file`.")
    try:
        made = form.file.complete(form.fields.get("purpose", ""), lifetime_s=_lifetime(form.fields))
    except BaseException:
        form.file.discard()
        raise
    return file_object(made)


@router.get("", responses=answered(Page[File]))
def list_files(
    context: Ctx, caller: Viewer, after: After = "", limit: Limit = 10_000, order: Order = "desc", purpose: str = ""
) -> dict[str, Any]:
    """The tenant's files, the newest first."""

    def read(file_id: str) -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            found = api.find_file(caller.tenant, file_id, store=context.store)
            return file_object(found) if purpose in ("", found.purpose) else None
        return None

    def ids(last: str) -> Iterator[str]:
        if order == "desc":
            return api.file_ids(caller.tenant, after=last, store=context.store)
        oldest_first = list(api.file_ids(caller.tenant, store=context.store))[::-1]
        return (each for each in oldest_first if not last or each < last)

    return page_of(ids, read, prefix=PREFIX, after=after, limit=limit)


@router.get("/{file_id}", responses=answered(File))
def retrieve(file_id: str, context: Ctx, caller: Viewer) -> dict[str, Any]:
    if is_result(file_id):
        return read_result(context, caller.tenant, file_id).file_object
    return file_object(api.find_file(caller.tenant, file_id.removeprefix(PREFIX), store=context.store))


@router.get("/{file_id}/content")
def content(file_id: str, context: Ctx, caller: Viewer) -> Response:
    # Rows of users: a browser may neither run nor guess them.
    headers = {"content-disposition": "attachment", "x-content-type-options": "nosniff"}
    if is_result(file_id):
        found = read_result(context, caller.tenant, file_id)
        return Response(found.data, media_type="application/octet-stream", headers=headers)
    chunks = api.read_file(caller.tenant, file_id.removeprefix(PREFIX), store=context.store)
    return StreamingResponse(chunks, media_type="application/octet-stream", headers=headers)


@router.delete("/{file_id}", responses=answered(DeletedFile))
def delete(file_id: str, context: Ctx, caller: Member) -> dict[str, Any]:
    """Delete a file. Datasets that were made of it keep their own copy."""
    deleted = api.delete_file(caller.tenant, file_id.removeprefix(PREFIX), store=context.store)
    return {"id": f"{PREFIX}{deleted.id}", "object": "file", "deleted": True}


def _lifetime(fields: dict[str, str]) -> float | None:
    """Seconds after which the file goes, from ``expires_after[seconds]``; None if it stays."""
    given = fields.get("expires_after[seconds]")
    if given is None:
        return None
    if len(given) > 7 or not given.isascii() or not given.isdecimal() or not 3600 <= int(given) <= 2_592_000:
        raise BadData(
            f"{given!r} is not 3600 to 2592000 seconds", where="expires_after", remedy="Leave it out to keep."
        )
    return float(given)
