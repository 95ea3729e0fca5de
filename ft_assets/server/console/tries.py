"""The box on the pages of jobs and lines in which a person asks a model and its base the same question."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orjson
from anyio import from_thread
from fastapi import APIRouter, Request
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response, StreamingResponse

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
from ft_assets.server.tries import as_events, try_model, why_not
from ft_resources.errors import NotFound, UserError, in_sentences
from ft_resources.serving.errors import BadRequest

router = APIRouter()
_SERVER = 500
MODEL, BASE = "model", "base"
_TOOLS = "Write a JSON list of tools, as OpenAI's API takes them."
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
    which = fields.get("which") or next(iter(box.names), "")
    if which not in box.names:
        raise NotFound(box.why_not or f"there is no {which!r} to try", where="model", remedy="Load the page again.")
    text, system = fields.get("prompt", ""), fields.get("system", "")
    if not text.strip():
        raise BadRequest("the prompt is empty", where="prompt", remedy="Write what the model is to answer.")
    said = [{"role": "system", "content": system}] if system.strip() else []
    tools = _read_tools(fields.get("tools", ""))
    # Whoever tries is no user of the line: nothing is noted for a rollout.
    model = (await context.models.find(who.tenant, box.names[which])).choose(who.actor)
    names = {MODEL: f"{which}, {model.served.address.rpartition('/')[2][:12]}", BASE: "base"}

    def ask(of: str) -> AsyncGenerator[dict[str, Any]]:
        asking = try_model(context, model, [*said, {"role": "user", "content": text}], tools=tools, of_base=of == BASE)
        return _told(names[of], asking)

    if by_script(request):
        # The script asks for each of the two by itself, so that neither waits for the other.
        parts = ask(BASE if fields.get("of") == BASE else MODEL)
        return StreamingResponse(as_events(parts), media_type="text/event-stream")
    # The base's answer is a second question.
    await run_in_threadpool(rate_limits.count, request, context.access, who)
    try:
        tried = await unless_gone(request, asyncio.gather(*(_whole(ask(of)) for of in names)))
    except ClientGone:
        return Response(status_code=GONE)
    shown: dict[str, Any] = {"which": which, "prompt": text, "system": system, "tools": fields.get("tools", "")}
    return page(request, "tried.html", box=box, tried=tried, **shown)


async def _told(who: str, asking: Awaitable[AsyncGenerator[dict[str, Any]]]) -> AsyncGenerator[dict[str, Any]]:
    """The name of the model, the parts of its answer, and the problem if it failed; the other answer is still shown."""
    yield {"who": who}
    try:
        async with aclosing(await asking) as parts:
            async for part in parts:
                yield part
    except UserError as error:
        words = operators_words(error) if status_of_error(error) >= _SERVER else in_sentences(error.what, error.remedy)
        yield {"problem": words}


async def _whole(parts: AsyncGenerator[dict[str, Any]]) -> dict[str, Any]:
    """All parts in one: texts joined, and of the rest what came last."""
    whole: dict[str, Any] = {"problem": "", "thoughts": "", "text": "", "tokens": 0, "finish_reason": None}
    async for part in parts:
        joined = {name: whole[name] + part[name] for name in ("thoughts", "text") if name in part}
        whole |= part | joined
    return whole


def _read_tools(text: str) -> list[dict[str, Any]]:
    try:
        found = orjson.loads(text) if text.strip() else []
    except ValueError as error:
        raise BadRequest(f"this is no JSON ({error})", where="tools", remedy=_TOOLS) from None
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise BadRequest("this is no list of tools", where="tools", remedy=_TOOLS)
    return found


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
