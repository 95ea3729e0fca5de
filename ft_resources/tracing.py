"""OpenTelemetry traces, for whoever sets ``OTEL_EXPORTER_OTLP_ENDPOINT``; elsewhere spans cost nothing.

Spans name things: tenants, models, addresses, counts of tokens. Prompts, answers and rows are in none. Further
variables are OpenTelemetry's own, such as ``OTEL_EXPORTER_OTLP_HEADERS`` and ``OTEL_TRACES_SAMPLER``.
"""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span, Tracer

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_SERVICE = "ft"
# Ids of the trace and the span that begins next, where they are not drawn.
_known: ContextVar[tuple[int, int] | None] = ContextVar("known", default=None)


def tracer() -> "Tracer":
    """Who starts spans. They are sent in the background, and what is left is sent when the process ends."""
    from opentelemetry.trace import NoOpTracer

    return _provider().get_tracer(_SERVICE) if traces_wanted() else NoOpTracer()


def traces_wanted() -> bool:
    """Whether spans are sent anywhere."""
    return any(os.environ.get(name) for name in ENDPOINTS)


def carried(span: "Span") -> dict[str, str]:
    """The headers that tell another process that it works for ``span``."""
    from opentelemetry.trace import set_span_in_context
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    headers: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(headers, set_span_in_context(span))
    return headers


def continued(headers: Mapping[str, str]) -> "Context":
    """The trace that a caller's headers name; only for callers that are believed."""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": headers.get("traceparent", "")})


@contextmanager
def ending(span: "Span") -> Iterator[None]:
    """End ``span`` with the block. Of an error only its type is told, as its words may quote what was asked."""
    from opentelemetry.trace import StatusCode

    try:
        yield
    except Exception as error:
        span.set_status(StatusCode.ERROR, type(error).__name__)
        raise
    finally:
        span.end()


def trace_of(submission: str) -> "Context":
    """The trace that all processes put the spans of a submission into: its id follows from the submission's."""
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    trace, span = _ids(submission)
    return set_span_in_context(NonRecordingSpan(SpanContext(trace, span, True, TraceFlags(TraceFlags.SAMPLED))))


def record_submission(submission: str, began: str, ended: str, attributes: Mapping[str, str]) -> None:
    """Send the span of a whole submission, once it has ended: the parent of all others of its trace.

    Args:
        began: when it was asked for, in ISO 8601; so is ``ended``.
    """
    known = _known.set(_ids(submission))
    try:
        span = tracer().start_span("submission", _no_parent(), start_time=_ns(began), attributes=dict(attributes))
        span.end(_ns(ended))
    finally:
        _known.reset(known)


def _no_parent() -> "Context":
    from opentelemetry.context import Context

    return Context()


@cache
def _provider() -> "TracerProvider":
    """Not the process's global one, which MLflow or Dagster may use for spans of their own."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Ids(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            known = _known.get()
            return known[0] if known else super().generate_trace_id()

        def generate_span_id(self) -> int:
            known = _known.get()
            return known[1] if known else super().generate_span_id()

    service = os.environ.get("OTEL_SERVICE_NAME", _SERVICE)
    provider = TracerProvider(resource=Resource.create({"service.name": service}), id_generator=Ids())
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider


def _ids(submission: str) -> tuple[int, int]:
    """Ids of the trace (16 bytes) and of its first span (8 bytes)."""
    found = hashlib.sha256(submission.encode()).digest()
    return int.from_bytes(found[:16]), int.from_bytes(found[16:24])


def _ns(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1e9)
