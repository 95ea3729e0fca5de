"""A span for each answer of the engine, below the client's: when the prompt was read, how many tokens were written."""

from collections.abc import Callable, Mapping

from ft_assets.workers.serving.requests import Event, Failed, Read, Written
from ft_resources.tracing import continued, tracer


class TracedAnswer:
    """The span of one answer. Call it with the events, which it passes to ``then``.

    Args:
        headers: of the request; a client with the server's key is trusted.
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
        """The answer was sent completely, or the client is gone."""
        self._span.set_attribute("ft.completion_tokens", self._written)
        self._span.end()
