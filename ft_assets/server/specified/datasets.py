"""``/v1/datasets``: rows are uploaded, in one request or to a signed address, and become a version."""

import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import Field, ValidationError
from starlette.concurrency import run_in_threadpool

from ft_assets import api
from ft_assets.api import Identity, LinkSignature, UploadState
from ft_assets.records.sorted_ids import time_of
from ft_assets.server import rate_limits
from ft_assets.server.confined import dataset_name
from ft_assets.server.context import Context, Ctx, Member, Viewer
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.long_calls import StillRunning
from ft_assets.server.multipart import body_of, read_form
from ft_assets.server.owned import own_dataset
from ft_assets.server.pages import After, Limit, page_of
from ft_assets.server.specified.strict import KNOWN_QUERY, Given, told_as
from ft_assets.settings.environment import public_url
from ft_resources.errors import BadData, NotFound, NotPermitted, UserError

PREFIX = "dataset-"
router = APIRouter(prefix="/v1/datasets", route_class=KeyFirst, dependencies=[KNOWN_QUERY])
_FIELDS = ("name", "file")
_NAMES = {"dataset name": "name"}
_KNOWN_LATER = ("format", "row_count", "rows", "token_count", "dedup_removed", "contamination_flagged", "uri", "report")
_Text = Annotated[str, Query(max_length=100)]


class NewDataset(Given):
    """An announcement: the dataset's name, and name and size of its file."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    filename: Annotated[str, Field(min_length=1, max_length=120)]
    bytes: Annotated[int, Field(ge=1, strict=True)]


_FORM = {"type": "object", "properties": {"name": {"type": "string"}, "file": {"type": "string", "format": "binary"}}}
_BODIES = {
    "application/json": {"schema": NewDataset.model_json_schema()},
    "multipart/form-data": {"schema": {**_FORM, "required": list(_FIELDS)}},
}


@router.post("", openapi_extra={"requestBody": {"content": _BODIES, "required": True}})
async def create(
    request: Request,
    context: Ctx,
    caller: Member,
    idempotency_key: Annotated[str, Header(max_length=255)] = "",
) -> dict[str, Any]:
    """Upload the form field `file` as the next version of the dataset `name`; or announce it, as JSON, and `PUT` it to
    the address in the answer. The same bytes of a form are the same version, and the same `Idempotency-Key` is the same
    upload."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return await context.uploads.run(caller.tenant, lambda: _upload(request, context, caller, idempotency_key))
    body = await _announced(request)
    return await run_in_threadpool(_begin, request, context, caller, body, idempotency_key)


async def _announced(request: Request) -> NewDataset:
    """FastAPI would read a form whole before it is known to be one."""
    try:
        sent = await request.json()
    except ValueError:
        raise BadData(
            "the body is neither JSON nor multipart/form-data",
            where="body",
            remedy="Send {name, filename, bytes}, or a form with the fields name and file.",
        ) from None
    try:
        return NewDataset.model_validate(sent)
    except ValidationError as error:
        wrong = [{**each, "loc": ("body", *each["loc"])} for each in error.errors()]
        raise RequestValidationError(wrong, body=sent) from None


def _begin(request: Request, context: Context, caller: Identity, body: NewDataset, key: str) -> dict[str, Any]:
    with told_as(_NAMES):
        state = api.begin_dataset(
            caller.tenant,
            dataset_name(caller, body.name),
            filename=body.filename,
            size=body.bytes,
            actor=caller.actor,
            key=key,
            store=context.store,
        )
    if state.status != "pending":
        return {**_found(request, context, caller, f"{PREFIX}{state.upload.id}"), "upload": None}
    place = api.place_of_upload(
        caller.tenant,
        state,
        f"/v1/datasets/{PREFIX}{state.upload.id}/content",
        access=context.access,
        store=context.store,
    )
    url = f"{_server(request)}{place.url}" if place.url.startswith("/") else place.url
    upload = {"method": "PUT", "url": url, "headers": place.headers, "expires_at": place.expires_at}
    return {**_pending(context, state), "upload": upload}


def _upload(request: Request, context: Context, caller: Identity, key: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="ft-dataset-") as scratch:

        def keep(filename: str, chunks: Iterator[bytes]) -> Path:
            return api.receive_rows(filename, chunks, Path(scratch))

        form = read_form(request, "file", keep, Path.unlink)
        if form.file is None:
            raise BadData("no file was sent", where="file", remedy="Send it as the form field `file`.")
        unknown = next((name for name in form.fields if name not in _FIELDS), "")
        if unknown or not form.fields.get("name"):
            raise BadData(
                f"there is no field {unknown!r} here" if unknown else "the dataset has no name",
                where=unknown or "name",
                remedy="Send the form fields `name` and `file`.",
            )
        with told_as(_NAMES):
            added = api.add_rows(
                form.file,
                dataset_name(caller, form.fields["name"]),
                actor=caller.actor,
                key=key,
                store=context.store,
                orchestrator=context.orchestrator,
            )
    return {**_shown(request, context, caller, str(added.key)), "warnings": list(added.warnings)}


@router.put("/{dataset_id}/content")
async def receive(
    dataset_id: str,
    request: Request,
    context: Ctx,
    tenant: _Text = "",
    expires: Annotated[int, Query(ge=0, lt=2**53)] = 0,
    key: _Text = "",
    signature: _Text = "",
) -> Response:
    """Take the bytes of an upload. No key is asked for: the address is signed, and is the permission."""
    given = LinkSignature(expires=expires, key=key, signature=signature)
    upload = dataset_id.removeprefix(PREFIX)
    # Before it may take one of the tenant's slots.
    state = await run_in_threadpool(_opened, request, context, tenant, upload, given)
    # For the audit log.
    request.state.caller = Identity(tenant=tenant, role="member", actor=state.upload.actor, proof="link")
    receive = partial(api.receive_dataset, tenant, state, body_of(request), store=context.store)
    await context.uploads.run(tenant, receive)
    return Response()


def _opened(request: Request, context: Context, tenant: str, upload: str, given: LinkSignature) -> UploadState:
    try:
        state = api.open_place(tenant, upload, given, access=context.access, store=context.store)
    except NotPermitted as error:
        raise rate_limits.refused(request, context.access, error) from None
    api.require_not_erased(tenant, store=context.store)
    return state


@router.post("/{dataset_id}/complete")
def complete(dataset_id: str, request: Request, context: Ctx, caller: Member, response: Response) -> dict[str, Any]:
    """Make the version of what was uploaded; 202 where that takes longer: ask again. A version stays as it is."""
    if not dataset_id.startswith(PREFIX):
        # That of a form, to those who complete whatever they upload.
        return {**_found(request, context, caller, dataset_id), "warnings": []}
    state = _upload_named(dataset_id, context, caller)
    upload = state.upload.id
    make = partial(api.complete_dataset, caller.tenant, upload, store=context.store, orchestrator=context.orchestrator)
    try:
        added = context.long_calls.run(caller.tenant, f"dataset {caller.tenant} {upload}", make)
    except StillRunning:
        response.status_code = 202
        return {**_pending(context, state), "status": "completing"}
    return {**_found(request, context, caller, dataset_id), "warnings": list(added.warnings) if added else []}


@router.get("")
def list_datasets(
    request: Request, context: Ctx, caller: Viewer, after: After = "", limit: Limit = 20
) -> dict[str, Any]:
    """The tenant's dataset versions, by name and number."""
    keys = api.dataset_keys(caller.tenant, store=context.store)

    def ids(last: str) -> Sequence[str]:
        return keys[keys.index(version_named(last, context, caller)) + 1 :] if last else keys

    def known(last: str) -> bool:
        try:
            return version_named(last, context, caller) in keys
        except UserError:
            return False

    def read(key: str) -> dict[str, Any] | None:
        try:
            return _shown(request, context, caller, key)
        except NotFound:
            return None

    return page_of(ids, read, prefix="", after=after, limit=limit, known=known)


@router.get("/{dataset_id}")
def retrieve(dataset_id: str, request: Request, context: Ctx, caller: Viewer) -> dict[str, Any]:
    """A version, by its key or by the id of its upload; or an upload that is not completed."""
    return _found(request, context, caller, dataset_id)


def _found(request: Request, context: Context, caller: Identity, dataset_id: str) -> dict[str, Any]:
    if dataset_id.startswith(PREFIX):
        state = _upload_named(dataset_id, context, caller)
        if not state.dataset:
            return _pending(context, state)
    return _shown(request, context, caller, version_named(dataset_id, context, caller), shown_as=dataset_id)


def version_named(dataset_id: str, context: Context, caller: Identity) -> str:
    """The key of the tenant's version with an id, which is the key, or that of an upload. Raises NotFound, also for an
    upload that is not completed, and for what is neither."""
    if not dataset_id.startswith(PREFIX):
        try:
            return own_dataset(caller, dataset_id)
        except UserError:
            raise _no_dataset(dataset_id) from None
    state = _upload_named(dataset_id, context, caller)
    if not state.dataset:
        what = f"{dataset_id!r} is not completed"
        raise NotFound(what, where="dataset", remedy=f"POST /v1/datasets/{dataset_id}/complete.")
    return state.dataset


def _upload_named(dataset_id: str, context: Context, caller: Identity) -> UploadState:
    try:
        return api.dataset_upload(caller.tenant, dataset_id.removeprefix(PREFIX), store=context.store)
    except NotFound:
        raise _no_dataset(dataset_id) from None


def _no_dataset(dataset_id: str) -> NotFound:
    return NotFound(f"there is no dataset {dataset_id!r}", where="dataset", remedy="List datasets to see their ids.")


def _pending(context: Context, state: UploadState) -> dict[str, Any]:
    """An upload that is no version yet. Its version is the number that it would get now."""
    upload = state.upload
    return {
        **dict.fromkeys(_KNOWN_LATER),
        "id": f"{PREFIX}{upload.id}",
        "object": "dataset",
        "name": upload.dataset,
        "version": api.expected_version(upload.dataset, store=context.store),
        "status": {"pending": "awaiting upload"}.get(state.status, state.status),
        "bytes": upload.bytes,
        "created_at": int(time_of(upload.id)),
    }


def _shown(request: Request, context: Context, caller: Identity, key: str, *, shown_as: str = "") -> dict[str, Any]:
    card = api.dataset_card(key, store=context.store)
    return {
        "id": shown_as or (f"{PREFIX}{card.upload}" if card.upload else key),
        "object": "dataset",
        "name": f"{card.key.tenant}.{card.key.name}",
        "version": card.key.version,
        "key": key,
        "status": card.state,
        "why": card.why,
        "format": card.form or None,
        "row_count": card.rows,
        "rows": card.kept,
        "token_count": dict(card.tokens),
        "dedup_removed": card.dedup_removed,
        "contamination_flagged": card.contamination_flagged,
        "uri": card.uri,
        "bytes": card.bytes,
        "created_at": int(card.created_at),
        "report": _report(request, context, caller, card.curated),
    }


def _report(request: Request, context: Context, caller: Identity, curated: str) -> str | None:
    """A signed link to the report's page, for 15 minutes."""
    if not curated:
        return None
    try:
        link = api.sign_link(caller.tenant, curated, "report/report.html", store=context.store, access=context.access)
    except NotFound:
        return None
    return f"{_server(request)}{link.path}"


def _server(request: Request) -> str:
    return public_url() or str(request.base_url).rstrip("/")
