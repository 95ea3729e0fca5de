"""``POST /v1/ft/answers``: what a result or its base says, for ``ft chat`` after ``ft login``."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from ft_assets import api
from ft_assets.api import FoundModel, Identity
from ft_assets.server.chat_bodies import Message
from ft_assets.server.client_gone import GONE, ClientGone, unless_gone
from ft_assets.server.context import Asker, Context, Ctx
from ft_assets.server.errors import told
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.tries import MOST_TOKENS, as_events, try_model
from ft_resources.artifacts import Address
from ft_resources.errors import NotFound, UserError

router = APIRouter(prefix="/v1/ft", route_class=KeyFirst)
_EVENTS: dict[str, Any] = {
    "schema": {
        "type": "string",
        "description": "Events whose data are objects with what is added to `thoughts` and `text`, the number of "
        "`tokens` so far and, in the last one, the `finish_reason`; or with an `error`.",
    }
}


class AskedOfResult(BaseModel):
    """A conversation that a result, or its base, is to go on with."""

    model_config = ConfigDict(extra="forbid")

    address: Annotated[str, Field(max_length=300, description="Of an adapter or an ungated result.")]
    messages: Annotated[list[Message], Field(min_length=1)]
    tools: Annotated[list[dict[str, Any]], Field(max_length=128, description="What the model may call.")] = []
    of_base: Annotated[bool, Field(description="Whether its base is asked.")] = False
    max_tokens: Annotated[int, Field(ge=1, le=4096)] = MOST_TOKENS


@router.post("/answers", responses={200: {"content": {"text/event-stream": _EVENTS}}}, response_class=StreamingResponse)
async def answers(body: AskedOfResult, request: Request, context: Ctx, caller: Asker) -> Response:
    """The likeliest answer of a result that need not stand in a stage, or of its base; tools where its template has
    them."""
    model = await run_in_threadpool(_found, context, caller, body.address)
    turns = [message.turn for message in body.messages]
    asking = try_model(context, model, turns, tools=body.tools, of_base=body.of_base, most=body.max_tokens)
    try:
        parts = await unless_gone(request, asking)
    except ClientGone:
        return Response(status_code=GONE)
    return StreamingResponse(
        as_events(_to_its_end(parts)), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


def _found(context: Context, caller: Identity, address: str) -> FoundModel:
    found = Address.parse(address)
    if found.tenant != caller.tenant:
        raise api.no_model(address)
    if found.asset == "eval_report":
        raise NotFound(
            "a rejected candidate is on no server",
            where="address",
            remedy="Run ft chat on a machine with access to the store.",
        )
    return api.served_model_at(address, name=address, store=context.store)


async def _to_its_end(parts: AsyncGenerator[dict[str, Any]]) -> AsyncGenerator[dict[str, Any]]:
    try:
        async for part in parts:
            yield part
    except UserError as error:
        yield told(error)
    finally:
        await parts.aclose()
