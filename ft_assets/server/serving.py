"""A server that runs until a signal, and lets what is under way finish."""

import signal
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from ft_assets.server.connections import LimitedConnection
from ft_assets.server.streams import end_streams

DRAIN_S = 240
"""Seconds that requests under way, such as uploads, have to finish after the first signal."""


class Server(uvicorn.Server):
    """uvicorn's, which ends streams of events with the first signal, and then returns to whoever ran it. ``answers`` is
    called once it listens."""

    def __init__(self, config: uvicorn.Config, answers: Callable[[], object]) -> None:
        super().__init__(config)
        self._answers = answers

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            self._answers()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        # They would go on for as long as somebody listens.
        end_streams()
        # uvicorn's own handler would raise the signal anew once the server has ended, before others can be ended.
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def server_of(
    app: ASGIApp,
    *,
    host: str,
    port: int,
    proxy: str = "",
    drain_s: int = DRAIN_S,
    answers: Callable[[], object] = lambda: None,
) -> Server:
    """A server of ``app`` at ``host`` and ``port``; ``run`` serves until SIGTERM or Ctrl-C, and ``started`` is then
    whether it could.

    From the signal on no connection is accepted, streams of events end, and other requests may take ``drain_s`` seconds
    more; a second Ctrl-C ends them at once. ``proxy`` are addresses or networks, by commas, whose X-Forwarded-For and
    X-Forwarded-Proto are believed. ``answers`` is called when it listens.
    """
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        http=LimitedConnection,
        # By the process that serves, as everything else that it logs.
        log_config=None,
        log_level="warning",
        proxy_headers=bool(proxy),
        forwarded_allow_ips=proxy or None,
        timeout_graceful_shutdown=drain_s,
    )
    return Server(config, answers)
