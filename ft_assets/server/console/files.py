"""Files: upload with a look at the first rows, list, delete."""

import contextlib
from collections.abc import Iterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from ft_assets import api
from ft_assets.api import IncompleteFile
from ft_assets.server.console.failures import by_script
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import FORM_TOKEN, Fields, Member, Person, Viewer, require_form_token
from ft_assets.server.context import Context, Ctx
from ft_assets.server.files import PREFIX, file_object
from ft_assets.server.multipart import Form, read_form
from ft_assets.server.pages import After, page_of
from ft_assets.settings.readable import READABLE
from ft_resources.errors import BadData, NotFound

router = APIRouter(prefix="/files")
_SHOWN = 25


@router.get("")
def list_files(request: Request, context: Ctx, person: Viewer, after: After = "") -> Response:
    found = tenant_files(context, person, after, _SHOWN)
    after = found["last_id"] if found["has_more"] else ""
    return page(request, "files.html", files=found["data"], after=after, kinds=READABLE)


def tenant_files(context: Context, person: Person, after: str, limit: int) -> dict[str, Any]:
    """A page of the tenant's files, the newest first."""

    def read(file_id: str) -> dict[str, Any] | None:
        with contextlib.suppress(NotFound):
            return file_object(api.find_file(person.identity.tenant, file_id, store=context.store))
        return None

    def ids(last: str) -> Iterator[str]:
        return api.file_ids(person.identity.tenant, after=last, store=context.store)

    return page_of(ids, read, prefix=PREFIX, after=after, limit=limit)


@router.post("/look")
async def look(
    request: Request,
    context: Ctx,
    person: Member,
    fields: Fields,
    name: Annotated[str, Query(max_length=300)],
    whole: bool = False,
) -> Response:
    """What the first bytes of a file, which are the body, say of its rows. Nothing is kept."""
    head = await request.body()
    found = await context.uploads.run(person.identity.tenant, lambda: api.look_at_head(name, head, whole=whole))
    return page(request, "fragments/look.html", look=found, name=name, before=True)


@router.post("")
async def upload(request: Request, context: Ctx, person: Member) -> Response:
    """Keep a file; its bytes go to the store as they come."""
    tenant = person.identity.tenant
    file_id = await context.uploads.run(tenant, lambda: _upload(request, context, person))
    target = f"/console/new/rows?file={PREFIX}{file_id}"
    if by_script(request):
        return Response(status_code=201, headers={"x-next": target})
    return RedirectResponse(target, 303)


def _upload(request: Request, context: Context, person: Person) -> str:
    def keep(filename: str, chunks: Iterator[bytes]) -> IncompleteFile:
        return api.add_file(person.identity.tenant, filename, chunks, actor=person.identity.actor, store=context.store)

    form: Form[IncompleteFile] = read_form(request, "file", keep, IncompleteFile.discard)
    if form.file is None:
        raise BadData("no file was chosen", where="file", remedy="Go back and choose a file.")
    try:
        # Nothing is visible yet.
        require_form_token(person, form.fields.get(FORM_TOKEN, ""))
        return form.file.complete("fine-tune").id
    except BaseException:
        form.file.discard()
        raise


@router.post("/{file_id}/delete")
def delete(file_id: str, context: Ctx, person: Member, fields: Fields) -> Response:
    api.delete_file(person.identity.tenant, file_id.removeprefix(PREFIX), store=context.store)
    return RedirectResponse("/console/files", 303)
