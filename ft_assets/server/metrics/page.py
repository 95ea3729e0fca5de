"""The port that Prometheus scrapes. It is another than the API's, so that no tenant reaches it."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from prometheus_client import start_http_server

from ft_assets import api
from ft_assets.server.metrics.platform import PlatformMetrics
from ft_assets.server.metrics.requests import RequestFigures
from ft_resources.errors import UserError
from ft_resources.store import Store

PORT = "FT_METRICS_PORT"


@contextmanager
def metrics_page(
    requests: RequestFigures, store: Store, environment: Mapping[str, str] = os.environ
) -> Iterator[int | None]:
    """Serve ``/metrics`` on the port that ``FT_METRICS_PORT`` names while the block runs; gives the port, or None where
    no port is named. Raises UserError for a port that cannot be opened."""
    wanted = environment.get(PORT, "")
    if not wanted:
        yield None
        return
    platform = PlatformMetrics(api.PlatformLook(store=store))
    requests.registry.register(platform)
    try:
        server, thread = start_http_server(int(wanted), registry=requests.registry)
    except (ValueError, OSError, OverflowError) as error:
        raise UserError(
            f"port {wanted!r} cannot be opened: {error}", where=PORT, remedy="Name a free port, or leave it out."
        ) from error
    platform.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
        platform.stop()
