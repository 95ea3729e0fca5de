"""Requests in Prometheus's form: how many, how they ended, and how long until their answers began."""

import time

from prometheus_client import CollectorRegistry, Counter, Histogram
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_OTHER = "other"
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestFigures:
    """Figures of one server. Clients choose no label: a route is its pattern, and an unknown method is ``other``."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("ft_http_requests", "Requests that were answered.", labels, registry=self.registry)
        self._seconds = Histogram(
            "ft_http_request_seconds",
            "Seconds until an answer began; a stream may go on for longer.",
            labels[:2],
            buckets=_BUCKETS_S,
            registry=self.registry,
        )

    def add(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered with ``status`` after ``seconds``."""
        method = method if method in _METHODS else _OTHER
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)


class Counted:
    """Middleware that adds each request of ``app`` to ``figures``."""

    def __init__(self, app: ASGIApp, figures: RequestFigures) -> None:
        self._app, self._figures = app, figures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()

        async def noted(message: Message) -> None:
            if message["type"] == "http.response.start":
                route = route_of(scope)
                self._figures.add(scope["method"], route, message["status"], time.monotonic() - began)
            await send(message)

        await self._app(scope, receive, noted)


def route_of(scope: Scope) -> str:
    """The pattern of a request's route, such as ``/v1/files/{file_id}``; ``other`` if no route matched."""
    path = getattr(scope.get("route"), "path", "")
    return f"{scope.get('root_path', '')}{path}" if path else _OTHER
