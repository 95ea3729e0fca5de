"""``/v1/ft/calls``: functions of the Python API by their names, for ``ft`` after ``ft login``."""

import inspect
import re
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Body, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel

from ft_assets import api
from ft_assets.api import Identity, WaitsForSecondPerson
from ft_assets.remote.calls import CALLS, PLATFORM_TOO, PREFIX, Call, Of, answer_of, arguments_of, body_of
from ft_assets.server.confined import confined
from ft_assets.server.context import Administrator, Context, Ctx, at_least, context_of
from ft_assets.server.key_first import KeyFirst
from ft_assets.server.long_calls import StillRunning
from ft_resources.canonical import digest

router = APIRouter(prefix=PREFIX, route_class=KeyFirst)


def answer(function: Callable[..., Any], value: Any) -> Response:
    """``{"answer": …}``: what ``function`` returned."""
    return Response(b'{"answer":' + answer_of(function).dump_json(value) + b"}", media_type="application/json")


class Running(BaseModel):
    """A call that takes longer: ask for the same again."""

    running: Literal[True]


def described(function: Callable[..., Any], *, slow: bool) -> dict[int | str, dict[str, Any]]:
    """What the API's description says of the answers of a call of ``function``."""
    found: dict[int | str, dict[str, Any]] = {200: {"model": body_of(function)}}
    return {**found, 202: {"model": Running}} if slow else found


def slowly(
    request: Request, caller: Identity, function: Callable[..., Any], asked: BaseModel, call: Callable[[], Any]
) -> Response:
    """The answer of ``call``, a call of ``function``; 202 and ``{"running": true}`` where it takes longer, and the same
    has to be asked again."""
    key = digest([caller.tenant, caller.actor, function.__name__, asked.model_dump(mode="json")])
    try:
        return answer(function, context_of(request).long_calls.run(caller.tenant, key, call))
    except StillRunning:
        # The request that gets the answer is the one to note.
        request.state.reads = True
        return JSONResponse({"running": True}, 202)


def own_arguments(function: Callable[..., Any], context: Context, caller: Identity) -> dict[str, Any]:
    """What the server gives ``function`` beside what was asked: who asks, and the parts of this server."""
    offered: dict[str, Callable[[], Any]] = {
        "store": lambda: context.store,
        "access": lambda: context.access,
        "launcher": lambda: context.launcher,
        "orchestrator": lambda: context.orchestrator,
        "actor": lambda: caller.actor,
        "made_by": lambda: api.maker_of(caller, access=context.access),
        # Whoever may create a Job may mount any Secret of its namespace.
        "creates_jobs": lambda: False,
    }
    wanted = inspect.signature(function).parameters
    return {name: made() for name, made in offered.items() if name in wanted}


def _endpoint(call: Call) -> Callable[..., Response]:
    takes, function = arguments_of(call.name), call.function
    kinds = {
        name: of
        for name, field in takes.model_fields.items()
        if (of := next((each for each in field.metadata if isinstance(each, Of)), None))
    }

    def endpoint(asked: BaseModel, request: Request, context: Context, caller: Identity) -> Response:
        request.state.reads = not call.changes
        given = {name: getattr(asked, name) for name in takes.model_fields}
        given.update({name: confined(context, caller, of, given[name]) for name, of in kinds.items()})
        carried_out = partial(function, **given, **own_arguments(function, context, caller))
        if call.slow:
            return slowly(request, caller, function, asked, carried_out)
        try:
            return answer(function, carried_out())
        except WaitsForSecondPerson as waits:
            return JSONResponse({"waits": waits.proposal.model_dump(mode="json")}, 202)

    place = Body() if call.posted else Query()
    who = Administrator if call.name in PLATFORM_TOO else Annotated[Identity, at_least(call.role)]
    parameters = {"asked": Annotated[takes, place], "request": Request, "context": Ctx, "caller": who}
    endpoint.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
            for name, annotation in parameters.items()
        ]
    )
    endpoint.__doc__ = _first_paragraph(function)
    return endpoint


def _first_paragraph(function: Callable[..., Any]) -> str:
    text = inspect.getdoc(function) or ""
    return re.sub(r"\s+", " ", text.split("\n\n")[0].replace("``", "`"))


for each in CALLS.values():
    router.add_api_route(
        f"/{each.name}",
        _endpoint(each),
        methods=["POST" if each.posted else "GET"],
        name=each.name,
        responses=described(each.function, slow=each.slow),
    )
