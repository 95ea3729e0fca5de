"""A span for each answer of the engine, below that of whoever asked: when the prompt was read, how much was written."""

from collections.abc import Callable, Mapping

from ft_assets.workers.serving.requests import Event, Failed, Read, Written
from ft_resources.tracing import continued, tracer


class TracedAnswer:
    """The span of one answer. Called with its events, it tells them to ``then``.

    Args:
        headers: of the request; whoever has the server's key is believed.
    """

    def __init__(
        self, headers: Mapping[str, str], model: str, prompt_tokens: int, then: Callable[[Event], None]
    ) -> None:
        attributes: dict[str, str | int] = {"ft.model": model, "ft.prompt_tokens": prompt_tokens}
        self._span = tracer().start_span("generate", continued(headers), attributes=attributes)
        self._then, self._written = then, 0

    def __call__(self, event: Event) -> None:
        match event:
            case Read():
                self._span.add_event("prompt read")
            case Written(reason=reason):
                self._written += 1
                if reason is not None:
                    self._span.set_attribute("ft.reason", reason)
            case Failed(error=error):
                self._span.set_attribute("ft.error", type(error).__name__)
        self._then(event)

    def end(self) -> None:
        """The answer was read to its end, or nobody reads it any more."""
        self._span.set_attribute("ft.completion_tokens", self._written)
        self._span.end()
