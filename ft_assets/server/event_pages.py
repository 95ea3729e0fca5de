"""``/v1/fine_tuning/jobs/{id}/events``: what happened in a job, in pages or as it happens."""

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Header
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ft_assets import api
from ft_assets.server.answers.base import Page, answered
from ft_assets.server.answers.jobs import Event
from ft_assets.server.context import Ctx, Viewer, identified
from ft_assets.server.events import events_of
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.names import JOB
from ft_assets.server.pages import After, Limit, beyond, page_of
from ft_assets.server.streams import Streams

router = APIRouter(prefix="/v1/fine_tuning/jobs", route_class=KeyFirst)
_STREAMS = Streams()


@router.get("/{job_id}/events", response_model=None, responses=answered(Page[Event]))
async def list_events(
    job_id: str,
    context: Ctx,
    caller: Viewer,
    after: After = "",
    limit: Limit = 20,
    stream: bool = False,
    last_event_id: Annotated[str, Header(max_length=200)] = "",
    authorization: Annotated[str, Header()] = "",
) -> dict[str, Any] | Response:
    """What happened, the newest first; with ``stream`` as server-sent events, the oldest first, until the job ends."""
    name = job_id.removeprefix(JOB)

    def look() -> list[dict[str, Any]]:
        state = api.job_state(caller.tenant, name, store=context.store, launcher=context.launcher)
        return events_of(state, api.job_work(state, store=context.store))

    events = {event["id"]: event for event in await run_in_threadpool(look)}
    if stream:
        again = partial(identified, context, authorization)
        lines = _STREAMS.events(context, caller.tenant, name, after or last_event_id, identify=again)
        return StreamingResponse(lines, media_type="text/event-stream", headers={"cache-control": "no-store"})
    known = f"ftevent-{name}-"
    return page_of(
        beyond(list(events)), events.get, prefix="", after=after, limit=limit, known=lambda each: each.startswith(known)
    )
