"""Serves an application until a signal, and lets what is under way finish."""

from contextlib import suppress
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from ft_assets.server.streams import end_streams

DRAIN_S = 240
"""Seconds that requests under way, such as uploads, have to finish after the first signal."""


class _Server(uvicorn.Server):
    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # They would go on for as long as somebody listens.
        end_streams()
        super().handle_exit(sig, frame)


def run_server(app: ASGIApp, *, host: str, port: int, proxy: str = "") -> bool:
    """Serve ``app`` at ``host`` and ``port`` until SIGTERM or Ctrl-C; False where it could not start.

    From then on no connection is accepted, streams of events end, and other requests may take ``DRAIN_S`` seconds
    more; a second Ctrl-C ends them at once. ``proxy`` are addresses or networks, by commas, whose X-Forwarded-For and
    X-Forwarded-Proto are believed.
    """
    server = _Server(
        uvicorn.Config(
            app,
            host=host,
            port=port,
            log_level="warning",
            proxy_headers=bool(proxy),
            forwarded_allow_ips=proxy or None,
            timeout_graceful_shutdown=DRAIN_S,
        )
    )
    # It is raised again once the server has ended.
    with suppress(KeyboardInterrupt):
        server.run()
    return server.started
