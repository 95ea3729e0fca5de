"""``POST /v1/ft/feedback``: what users and judges say of answers."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field, model_validator

from ft_assets import api
from ft_assets.api import Thumb
from ft_assets.server.context import Ctx, Viewer
from ft_assets.server.key_first import KeyFirst

router = APIRouter(prefix="/v1/ft", route_class=KeyFirst)


class Feedback(BaseModel):
    """What a user says of one answer, or a judge."""

    model_config = ConfigDict(extra="forbid")

    id: Annotated[str, Field(min_length=1, max_length=100, description="Id of the answer, such as `chatcmpl-…`.")]
    model: Annotated[str, Field(min_length=1, max_length=300, description="Line that gave the answer.")]
    thumb: Annotated[Thumb | None, Field(description="A user's.")] = None
    score: Annotated[float | None, Field(ge=0, le=1, description="Score of a judge, from 0 to 1.")] = None

    @model_validator(mode="after")
    def _one(self) -> "Feedback":
        if (self.thumb is None) == (self.score is None):
            raise ValueError("send either thumb or score, not both")
        return self


@router.post("/feedback")
async def feedback(body: Feedback, request: Request, context: Ctx, caller: Viewer) -> dict[str, Any]:
    """Keep a user's thumb, or a judge's score. Of two of a kind for one answer the first counts."""
    # Said by users of a product and by judges, not by who administers it: no entry of the audit log.
    request.state.reads = True
    await context.models.find(caller.tenant, api.require_line(body.model))
    log = context.outcomes.log
    model = api.note_feedback(log, body.model, request=body.id, thumb=body.thumb, score=body.score)
    return {"object": "ft.feedback", "id": body.id, "model": model, **body.model_dump(include={"thumb", "score"})}
