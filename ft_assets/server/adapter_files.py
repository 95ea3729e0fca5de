"""``/v1/ft/adapters``: the files of the tenant's adapters, and of the bases that they stand on."""

from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from ft_assets import api
from ft_assets.remote.calls import Of
from ft_assets.server.confined import confined
from ft_assets.server.context import Ctx, Viewer
from ft_assets.server.key_first import KeyFirst
from ft_resources.errors import NotFound

router = APIRouter(prefix="/v1/ft/adapters", route_class=KeyFirst)
_Short = Annotated[str, Query(min_length=1, max_length=300)]


@router.get("/file")
def content(address: _Short, name: _Short, context: Ctx, caller: Viewer, base: bool = False) -> StreamingResponse:
    """The bytes of the file ``name`` of the adapter at ``address``; with ``base`` of its base model. They are as they
    are stored: whoever reads them compares them with the manifest."""
    find = api.find_base if base else api.find_adapter
    found = find(confined(context, caller, Of.ADDRESS, address), store=context.store)
    if name not in found.manifest.files:
        raise NotFound(f"there is no file {name!r}", where="file", remedy="Take names from the manifest.")
    headers = {
        "content-disposition": "attachment",
        "x-content-type-options": "nosniff",
        "content-length": str(found.manifest.files[name].size),
    }
    return StreamingResponse(
        context.store.read(found.location(name)), media_type="application/octet-stream", headers=headers
    )
