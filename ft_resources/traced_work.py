"""Spans of observed work: one for each attempt of a worker, below it one for each phase that it reports.

They are sent by whoever waits for the worker, which then needs no way to a collector.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ft_resources.attempts import Attempt, Ending
from ft_resources.execution import Observer
from ft_resources.tracing import trace_of, tracer

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span


class TracedWork(Observer):
    """Adds spans below ``parent``, and tells ``then`` everything."""

    def __init__(self, parent: "Context", then: Observer) -> None:
        self._parent, self._then = parent, then
        self._attempt: Span | None = None
        self._phase: Span | None = None
        self._named = ""

    def attempt(self, attempt: Attempt, *, attached: bool) -> None:
        self.end()
        self._attempt = tracer().start_span(
            f"attempt {attempt.number}",
            self._parent,
            attributes={"ft.address": str(attempt.address), "ft.attempt": attempt.number, "ft.attached": attached},
        )
        self._then.attempt(attempt, attached=attached)

    def progress(self, progress: dict[str, Any]) -> None:
        phase = str(progress.get("phase", ""))
        if self._attempt is not None and phase and phase != self._named:
            from opentelemetry.trace import set_span_in_context

            at = int(float(progress.get("at") or time.time()) * 1e9)
            self._end_phase(at)
            self._named = phase
            self._phase = tracer().start_span(phase, set_span_in_context(self._attempt, self._parent), start_time=at)
        self._then.progress(progress)

    def steps(self, attempt: Attempt, chunk: int, data: bytes) -> None:
        self._then.steps(attempt, chunk, data)

    def waiting(self, why: str, delay_s: float) -> None:
        self._then.waiting(why, delay_s)

    def retrying(self, ending: Ending, delay_s: float, change: str) -> None:
        if self._attempt is not None:
            self._attempt.set_attribute("ft.outcome", str(ending.outcome))
        self.end()
        self._then.retrying(ending, delay_s, change)

    def end(self) -> None:
        """End what is open."""
        self._end_phase(None)
        if self._attempt is not None:
            self._attempt.end()
        self._attempt, self._named = None, ""

    def _end_phase(self, at: int | None) -> None:
        if self._phase is not None:
            self._phase.end(at)
        self._phase = None


@contextmanager
def traced(name: str, submission: str, then: Observer) -> Iterator[Observer]:
    """An observer that feeds ``then`` and the trace of ``submission``, in which the block is a span ``name``. Work
    that belongs to no submission ("") has a trace of its own."""
    from opentelemetry.trace import set_span_in_context

    with tracer().start_as_current_span(name, trace_of(submission) if submission else None) as span:
        observer = TracedWork(set_span_in_context(span), then)
        try:
            yield observer
        finally:
            observer.end()
