"""What a job says and leaves: its events as they happen, and its result files."""

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Header, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

from ft_assets import api
from ft_assets.server.console.report_pages import report_response
from ft_assets.server.console.session import Viewer, person_of
from ft_assets.server.context import Ctx
from ft_assets.server.names import JOB
from ft_assets.server.results import read_result
from ft_assets.server.streams import Streams
from ft_resources.errors import NotFound

router = APIRouter(prefix="/jobs")
_STREAMS = Streams()
_KIND = {"step_metrics.csv": "steps", "report.html": "report"}


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
    lines = _STREAMS.events(context, tenant, name, last_event_id, identify=partial(person_of, request))
    return StreamingResponse(lines, media_type="text/event-stream")


@router.get("/{job_id}/files/{name}")
def result_file(job_id: str, name: str, context: Ctx, person: Viewer) -> Response:
    """A result file: the steps to download, or the page of the evaluation."""
    if name not in _KIND:
        raise NotFound("there is no such file", where="file", remedy="The job's page lists its files.")
    file_id = f"file-{job_id.removeprefix(JOB)}-{_KIND[name]}"
    found = read_result(context, person.identity.tenant, file_id)
    if name.endswith(".html"):
        return report_response(found.data, "text/html; charset=utf-8")
    headers = {"content-disposition": f'attachment; filename="{name}"'}
    return Response(found.data, media_type="text/csv; charset=utf-8", headers=headers)
