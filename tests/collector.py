"""A collector of OpenTelemetry's traces, which keeps the spans that it is sent."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor

from ft_resources import tracing


class Collector(SpanProcessor):
    """The spans that were sent, and their ``bodies`` as bytes; ``changed`` is set whenever there may be one more."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.changed = threading.Event()

    def on_end(self, span: ReadableSpan) -> None:
        self.changed.set()

    def spans(self) -> list[Any]:
        """All spans up to now, as they began."""
        tracing._provider().force_flush()
        told = (ExportTraceServiceRequest.FromString(body) for body in list(self.bodies))
        spans = [
            span for each in told for part in each.resource_spans for scope in part.scope_spans for span in scope.spans
        ]
        return sorted(spans, key=lambda span: int(span.start_time_unix_nano))

    def named(self, name: str) -> Any:
        """The one span of this name, waited for: that of a request ends after its answer."""
        while True:
            self.changed.clear()
            if found := [span for span in self.spans() if span.name == name]:
                (one,) = found
                return one
            self.changed.wait()


def attributes(span: Any) -> dict[str, Any]:
    """A span's attributes."""
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}


@contextmanager
def collecting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """Spans of this process go to a collector while the block runs."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.bodies.append(self.rfile.read(int(self.headers["content-length"])))
            collector.changed.set()
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with monkeypatch.context() as patched:
        patched.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        for proxy in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
            patched.delenv(proxy, raising=False)
        tracing._provider.cache_clear()
        tracing._provider().add_span_processor(collector)
        try:
            yield collector
        finally:
            tracing._provider().shutdown()
            tracing._provider.cache_clear()
            server.shutdown()
            server.server_close()
