"""Report pages over HTTP, read only, for the person at this machine: links in Dagster's UI lead here."""

from collections.abc import Awaitable, Callable

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from ft_assets import api
from ft_resources.errors import UserError
from ft_resources.store import Store

# Pages carry rows of users: nothing in them may run, load, be framed or be kept. Each is whole in one file.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "private, no-store",
}
# A site that points its own name here must not read the pages.
_HOSTS = ["127.0.0.1", "localhost"]


def report_app(store: Store) -> Starlette:
    """Serves ``/TENANT/ASSET/FINGERPRINT/report/NAME`` of ``store``."""

    def page(request: Request) -> Response:
        try:
            found = api.report_file(request.path_params["address"], request.path_params["name"], store=store)
        except UserError as error:
            return PlainTextResponse(f"{error}\n", status_code=404)
        return Response(found.data, media_type=found.media_type)

    return Starlette(
        routes=[Route("/{address:path}/report/{name}", page, methods=["GET"])],
        middleware=[
            Middleware(BaseHTTPMiddleware, dispatch=_guard),
            Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS),
        ],
    )


async def _guard(request: Request, answer: Callable[[Request], Awaitable[Response]]) -> Response:
    response = await answer(request)
    response.headers.update(HEADERS)
    return response
