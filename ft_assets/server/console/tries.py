"""The box on the pages of jobs and lines in which a person asks a model and its base the same question."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from anyio import from_thread
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from ft_assets import api
from ft_assets.api import Identity, JobState, LineState, Pointer
from ft_assets.server import rate_limits
from ft_assets.server.client_gone import GONE, ClientGone, unless_gone
from ft_assets.server.console.failures import by_script
from ft_assets.server.console.rendering import page
from ft_assets.server.console.session import Fields, Viewer
from ft_assets.server.context import Context, Ctx
from ft_assets.server.errors import operators_words, status_of_error
from ft_assets.server.names import JOB, model_name
from ft_assets.server.owned import own_line
from ft_assets.server.tries import try_model, why_not
from ft_resources.errors import NotFound, UserError, in_sentences

router = APIRouter()
_SERVER = 500
_ASKED: tuple[Pointer, ...] = ("production", "staging")
"""The stages whose adapters servers hold."""


@dataclass(frozen=True, kw_only=True)
class TryBox:
    """What a page says of trying.

    Args:
        action: where the question is sent.
        back: the page that the box belongs to.
        names: the models that may be asked, by what they are called there.
        why_not: why none can be asked now; then the page shows that instead of the box.
    """

    action: str
    back: str
    names: Mapping[str, str] = field(default_factory=dict)
    why_not: str = ""


def box_of_job(context: Context, who: Identity, state: JobState) -> TryBox | None:
    """For what a job made; None where it made nothing yet."""
    back = f"/console/jobs/{JOB}{state.job.id}"
    if state.status is not None and state.status.state == "rejected":
        said = "A candidate that did not pass its gates is not served, so it cannot be tried."
        return TryBox(action="", back=back, why_not=said)
    name = model_name(state)
    return _box(context, who, f"{back}/try", back, {"candidate": name}) if name else None


def box_of_line(context: Context, who: Identity, line: str, state: LineState) -> TryBox:
    """For what stands in a line's stages."""
    back = f"/console/lines/{quote(line)}"
    names: dict[Pointer, str] = {"production": line, "staging": f"{line}@staging"}
    standing: dict[str, str] = {stage: names[stage] for stage in _ASKED if state.at(stage)}
    if not standing:
        said = "Nothing to try yet: servers answer for what is in staging or production."
        return TryBox(action="", back=back, why_not=said)
    return _box(context, who, f"{back}/try", back, standing)


@router.post("/jobs/{job_id}/try")
async def try_job(request: Request, job_id: str, context: Ctx, person: Viewer, fields: Fields) -> Response:
    """What a job's model and its base say."""

    def look() -> TryBox:
        name = job_id.removeprefix(JOB)
        state = api.job_state(person.identity.tenant, name, store=context.store, launcher=context.launcher)
        box = box_of_job(context, person.identity, state)
        if box is None:
            raise NotFound("the job has made no model", where="job", remedy="Look again once it has ended.")
        return box

    return await _answered(request, context, person.identity, fields, await run_in_threadpool(look))


@router.post("/lines/{name}/try")
async def try_line(request: Request, name: str, context: Ctx, person: Viewer, fields: Fields) -> Response:
    """What an adapter of a line and its base say."""

    def look() -> TryBox:
        state = api.show_line(own_line(person.identity, name), store=context.store)
        return box_of_line(context, person.identity, name, state)

    return await _answered(request, context, person.identity, fields, await run_in_threadpool(look))


async def _answered(
    request: Request, context: Context, who: Identity, fields: Mapping[str, str], box: TryBox
) -> Response:
    # Nothing is changed: no entry of the audit log.
    request.state.reads = True
    # The base's answer is a second question.
    await run_in_threadpool(rate_limits.count, request, context.access, who)
    which = fields.get("which") or next(iter(box.names), "")
    if which not in box.names:
        raise NotFound(box.why_not or f"there is no {which!r} to try", where="model", remedy="Load the page again.")
    text, system = fields.get("prompt", ""), fields.get("system", "")
    work = try_model(context, who, box.names[which], text, system)
    try:
        trial = await unless_gone(request, work)
    except ClientGone:
        return Response(status_code=GONE)
    template = "fragments/tried.html" if by_script(request) else "tried.html"
    shown: dict[str, Any] = {"box": box, "which": which, "prompt": text, "system": system, "trial": trial}
    return page(request, template, **shown)


def _box(context: Context, who: Identity, action: str, back: str, names: Mapping[str, str]) -> TryBox:
    """With the models of ``names`` that can be asked now; or with the reason of the first that cannot."""
    said, found = "", {}
    for called, name in names.items():
        why = _why_not(context, who, name)
        said = said or why
        if not why:
            found[called] = name
    return TryBox(action=action, back=back, names=found, why_not="" if found else said)


def _why_not(context: Context, who: Identity, name: str) -> str:
    try:
        # Pages are made in threads, and names are looked up for the event loop.
        division = from_thread.run(context.models.find, who.tenant, name)
        return why_not(context, division.choose(who.actor))
    except UserError as error:
        if status_of_error(error) >= _SERVER:
            return operators_words(error)
        return in_sentences(f"{error.what[:1].upper()}{error.what[1:]}", error.remedy)
