"""``POST /v1/ft/feedback``: what users say of answers."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field

from ft_assets import api
from ft_assets.api import Thumb
from ft_assets.server.context import Ctx, Viewer

router = APIRouter(prefix="/v1/ft")


class Feedback(BaseModel):
    """What a user says of one answer."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, Field(min_length=1, max_length=100, description="Of the answer, such as `chatcmpl-…`.")]
    model: Annotated[str, Field(min_length=1, max_length=300, description="The line that was asked.")]
    thumb: Thumb


@router.post("/feedback")
async def feedback(body: Feedback, request: Request, context: Ctx, caller: Viewer) -> dict[str, Any]:
    """Keep a thumb up or down. Of two for one answer the first counts."""
    # Said by users of a product, not by who administers it: no entry of the audit log.
    request.state.reads = True
    await context.models.find(caller.tenant, api.require_line(body.model))
    model = api.note_thumb(context.outcomes.log, body.model, request=body.id, thumb=body.thumb)
    return {"object": "ft.feedback", "id": body.id, "model": model, "thumb": body.thumb}
