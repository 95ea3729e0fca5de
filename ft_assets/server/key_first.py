"""Routes that look at the key before they read the body, which then is strict JSON."""

from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import orjson
from fastapi import Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from ft_assets.server.context import ADMITTING


class KeyFirst(APIRoute):
    """FastAPI reads a body before it asks any dependency: whoever has no key could have it read whatever he sends."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        answer = super().get_route_handler()
        admit = next((ADMITTING[each] for each in _functions(self.dependant) if each in ADMITTING), None)

        async def admitted(request: Request) -> Response:
            if admit is not None:
                await admit(request)
            return await answer(_StrictJson(request.scope, request.receive))

        return admitted


class _StrictJson(Request):
    """Of the standard alone: half of a surrogate pair is no text, NaN no number, and nesting has an end."""

    async def json(self) -> Any:
        """As ``Request.json``; raises json.JSONDecodeError, which FastAPI expects."""
        return orjson.loads(await self.body())


def _functions(dependant: Dependant) -> Iterator[Callable[..., Any] | None]:
    yield dependant.call
    for each in dependant.dependencies:
        yield from _functions(each)
