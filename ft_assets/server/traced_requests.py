"""A span for each request, where traces are sent; the asking of a model server is a span below it."""

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ft_assets.server.metrics.requests import route_of
from ft_resources.tracing import ending, tracer


class Traced:
    """Middleware that puts each request of ``app`` into a trace of its own, until its answer has ended.

    What a client sends as ``traceparent`` is not believed: it could write into the trace of somebody else.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        from opentelemetry.trace import SpanKind, use_span

        span = tracer().start_span("request", kind=SpanKind.SERVER)
        with use_span(span, record_exception=False, set_status_on_exception=False), ending(span):

            async def noted(message: Message) -> None:
                if message["type"] == "http.response.start":
                    method, route = scope["method"], route_of(scope)
                    span.update_name(f"{method} {route}")
                    span.set_attribute("http.request.method", method)
                    span.set_attribute("http.route", route)
                    span.set_attribute("http.response.status_code", message["status"])
                    number = dict(message["headers"]).get(b"x-request-id", b"")
                    span.set_attribute("ft.request", number.decode("latin-1"))
                await send(message)

            await self._app(scope, receive, noted)
