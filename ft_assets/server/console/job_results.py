"""What a job says and leaves: its events as they happen, and the steps of its training."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from ft_assets import api
from ft_assets.server.console.browser_words import in_browser
from ft_assets.server.console.session import Viewer, known_person
from ft_assets.server.context import Ctx
from ft_assets.server.names import JOB
from ft_assets.server.results import read_result
from ft_assets.server.streams import Streams

router = APIRouter(prefix="/jobs")
_STREAMS = Streams(words=in_browser)


@router.get("/{job_id}/events")
async def events(
    request: Request,
    job_id: str,
    context: Ctx,
    person: Viewer,
    last_event_id: Annotated[str, Header(max_length=200)] = "",
) -> Response:
    """The job's events as they happen (server-sent events)."""
    name, tenant = job_id.removeprefix(JOB), person.identity.tenant
    await run_in_threadpool(api.job_state, tenant, name, store=context.store, launcher=context.launcher)

    # A session that is over hears no more.
    lines = _STREAMS.events(context, tenant, name, last_event_id, identify=partial(known_person, request))
    return StreamingResponse(lines, media_type="text/event-stream")


@router.get("/{job_id}/files/step_metrics.csv")
def steps(job_id: str, context: Ctx, person: Viewer) -> Response:
    """The steps to download."""
    found = read_result(context, person.identity.tenant, f"file-{job_id.removeprefix(JOB)}-steps")
    headers = {"content-disposition": 'attachment; filename="step_metrics.csv"'}
    return Response(found.data, media_type="text/csv; charset=utf-8", headers=headers)
