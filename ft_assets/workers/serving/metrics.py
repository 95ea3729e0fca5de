"""The engine's figures under vLLM's names, so that one dashboard shows both."""

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from ft_assets.workers.serving.engine import Engine


class Metrics:
    """Read from the engine at each scrape."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        """Prometheus's metrics."""
        found = self._engine.figures()
        yield GaugeMetricFamily("vllm:num_requests_running", "Requests in progress.", found.running)
        yield GaugeMetricFamily("vllm:num_requests_waiting", "Requests in the queue.", found.waiting)
        yield CounterMetricFamily("vllm:prompt_tokens", "Prompt tokens read.", found.prompt_tokens)
        yield CounterMetricFamily("vllm:generation_tokens", "Tokens generated.", found.generation_tokens)
