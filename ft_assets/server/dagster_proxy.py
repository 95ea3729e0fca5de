"""Dagster's pages behind a door: for the browsers of who has its token, and for no other page open in them.

Dagster's own server asks nobody who they are, takes GraphQL mutations by GET and answers any Host, so that any web page
could launch runs. It listens on a random port below a path that only this proxy knows. The proxy asks for

* the token: once in the URL, from then on as a cookie; scripts send it as a bearer token,
* a Host that is this machine (also through kubectl port-forward) or one of a list, which a name that was pointed here
  is not,
* for GraphQL: POST with JSON, or a WebSocket, from a page of this very origin.
"""

import asyncio
import hmac
import re
import secrets
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

import httpx
import websockets
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

_GRAPHQL = "/graphql"
_HOST = re.compile(r"(127\.0\.0\.1|localhost)(:\d{1,5})?")
# Of a connection and not of what it carries (RFC 9110, section 7.6.1), and what is said anew to the other side.
_HOPS = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "cookie", "authorization"}
_HEADERS = {
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
}
# A redirect would keep the cookie back where the link was on another site's page.
_ENTER = '<!doctype html><meta http-equiv="refresh" content="0; url=/"><title>Dagster</title>'
_STARTING = '<!doctype html><meta http-equiv="refresh" content="2"><title>Dagster</title>Dagster is starting …'
_CLOSED = "Open /?token=… once: ft ui printed the token; on a cluster the platform's administrators have it.\n"
_REFUSED_WEBSOCKET = 1008


def new_prefix() -> str:
    """A path for Dagster to listen below that no page can guess."""
    return f"/{secrets.token_hex(16)}"


def dagster_proxy(upstream: str, prefix: str, token: str, origins: Collection[str] = ()) -> Starlette:
    """Shows Dagster's server at ``upstream`` (such as http://127.0.0.1:40001), below ``prefix``, to bearers of
    ``token``, as this machine and as each of ``origins`` (such as https://dagster.example.com)."""
    proxy = _Proxy(upstream, prefix, token, origins)
    methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]
    return Starlette(
        routes=[WebSocketRoute(_GRAPHQL, proxy.subscribe), Route("/{path:path}", proxy.answer, methods=methods)],
        lifespan=proxy.lifespan,
    )


def own_origin(host: str, origins: Collection[str] = ()) -> str | None:
    """The origin of this server's pages for a request with this Host; None where it does not answer to that name."""
    if _HOST.fullmatch(host):
        return f"http://{host}"
    return next((origin for origin in origins if urlsplit(origin).netloc == host), None)


def refusal(
    method: str, path: str, headers: Mapping[str, str], origins: Collection[str] = ()
) -> tuple[int, str] | None:
    """Status and reason for a request that no page of Dagster's own makes; None for the others. ``headers`` has names
    in lower case."""
    own = own_origin(headers.get("host", ""), origins)
    if own is None:
        return 421, "this server answers to 127.0.0.1 and localhost, and to the names of its --origin only"
    if method not in ("GET", "HEAD", "POST") or (method == "POST") != (path == _GRAPHQL):
        return 405, f"GraphQL is asked by POST, at {_GRAPHQL}, and nothing else is changed here"
    origin, site = headers.get("origin"), headers.get("sec-fetch-site", "same-origin")
    visit = path != _GRAPHQL and headers.get("sec-fetch-mode") == "navigate"
    if origin not in (None, own) or (site not in ("same-origin", "none") and not visit):
        return 403, "only Dagster's own pages may ask this"
    if method == "POST" and headers.get("content-type", "").partition(";")[0].strip() != "application/json":
        return 415, "GraphQL is asked in JSON"
    return None


class _Proxy:
    def __init__(self, upstream: str, prefix: str, token: str, origins: Collection[str]) -> None:
        self._upstream, self._prefix, self._token, self._origins = upstream, prefix, token, origins
        self._cookie = secrets.token_urlsafe(32)

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        # No time limit: logs of runs are long, and Dagster is on this machine.
        async with httpx.AsyncClient(base_url=self._upstream, timeout=None, trust_env=False) as self._client:
            yield

    async def answer(self, request: Request) -> Response:
        path = request.scope["path"]
        if refused := refusal(request.method, path, request.headers, self._origins):
            return _plain(*refused)
        if hmac.compare_digest(request.query_params.get("token", "").encode(), self._token.encode()):
            response = HTMLResponse(_ENTER, headers={**_HEADERS, "Cache-Control": "no-store"})
            own = own_origin(request.headers["host"], self._origins) or ""
            encrypted = own.startswith("https:")
            response.set_cookie(_name(request), self._cookie, httponly=True, samesite="strict", secure=encrypted)
            return response
        if not self._knows(request):
            return _plain(401, _CLOSED)
        return await self._forward(request)

    async def subscribe(self, socket: WebSocket) -> None:
        """A subscription of Dagster's page, to and fro until one side closes."""
        # A browser always says of which origin a WebSocket is; it has no method, and a page cannot give it a body.
        headers = {**socket.headers, "content-type": "application/json"}
        if "origin" not in headers or refusal("POST", _GRAPHQL, headers, self._origins) or not self._knows(socket):
            await socket.close(_REFUSED_WEBSOCKET)
            return
        protocols = [websockets.Subprotocol(each) for each in socket.scope["subprotocols"]]
        url = f"{self._upstream.replace('http', 'ws', 1)}{self._prefix}{_GRAPHQL}"
        with suppress(OSError, websockets.InvalidHandshake):
            async with websockets.connect(url, subprotocols=protocols or None, max_size=None, proxy=None) as dagster:
                await socket.accept(dagster.subprotocol)
                ways = [asyncio.create_task(_send(socket, dagster)), asyncio.create_task(_receive(socket, dagster))]
                await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
                for way in ways:
                    way.cancel()
                await asyncio.gather(*ways, return_exceptions=True)
        with suppress(RuntimeError, WebSocketDisconnect):
            await socket.close()

    def _knows(self, connection: HTTPConnection) -> bool:
        kind, _, bearer = connection.headers.get("authorization", "").partition(" ")
        shown = connection.cookies.get(_name(connection), "")
        return hmac.compare_digest(shown.encode(), self._cookie.encode()) or (
            kind.lower() == "bearer" and hmac.compare_digest(bearer.encode(), self._token.encode())
        )

    async def _forward(self, request: Request) -> Response:
        headers = [(name, value) for name, value in request.headers.items() if name not in _HOPS | {"content-length"}]
        target = b"%s%s?%s" % (self._prefix.encode(), request.scope["raw_path"], request.scope["query_string"])
        body = await request.body() if request.method == "POST" else None
        asked = self._client.build_request(request.method, httpx.URL(raw_path=target), headers=headers, content=body)
        try:
            found = await self._client.send(asked, stream=True)
        except httpx.TransportError:
            return HTMLResponse(_STARTING, 503, {**_HEADERS, "Retry-After": "2"})
        passed = {name: value for name, value in found.headers.items() if name not in _HOPS} | _HEADERS
        if found.headers.get("content-type", "").startswith("text/html"):
            # The page says below which path it lies; a browser need not know.
            page = (await found.aread()).replace(self._prefix.encode(), b"")
            for name in ("content-length", "content-encoding"):
                passed.pop(name, None)
            return Response(page, found.status_code, passed)
        return StreamingResponse(found.aiter_raw(), found.status_code, passed, background=BackgroundTask(found.aclose))


def _name(connection: HTTPConnection) -> str:
    """Cookies of one host are shared by its ports, and two of these may be open."""
    return f"ft_ui_{connection.url.port or 80}"


def _plain(status: int, words: str) -> Response:
    return PlainTextResponse(f"{words.rstrip()}\n", status, _HEADERS)


async def _send(socket: WebSocket, dagster: websockets.ClientConnection) -> None:
    with suppress(WebSocketDisconnect, websockets.ConnectionClosed):
        while True:
            await dagster.send(await socket.receive_text())


async def _receive(socket: WebSocket, dagster: websockets.ClientConnection) -> None:
    async for message in dagster:
        await (socket.send_text(message) if isinstance(message, str) else socket.send_bytes(message))
