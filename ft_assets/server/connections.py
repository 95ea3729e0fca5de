"""Limits of connections, which neither uvicorn nor httptools has: how long a head may be and take, and how many."""

import asyncio
import resource
from typing import ClassVar

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 64 << 10
"""Bytes of a request's head, and of whatever else is no body: what frames its chunks, and trailers."""
_MOST = 2000
_TOO_LONG = "The head of the request is over 64 KiB."


def _room() -> int:
    """Most connections: each is a file, and others are open too."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST if files == resource.RLIM_INFINITY else min(_MOST, files // 2)


class LimitedConnection(HttpToolsProtocol):
    """A connection that is closed where its next request's head is over 64 KiB (400) or takes longer than ``head_s``.
    Of more than ``most`` the oldest without a request under way goes, or else the new one."""

    head_s: ClassVar[float] = 20.0
    most: ClassVar[int] = _room()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._since_body = 0
        self._due: asyncio.TimerHandle | None = None
        super().connection_made(transport)
        self._await_head()
        if len(self.connections) > self.most:
            idle = [each for each in self.connections if isinstance(each, LimitedConnection) and each._is_idle]
            min(idle, key=lambda each: each._due.when() if each._due else 0.0, default=self)._end()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._since_body += len(data)
        super().data_received(data)
        if self._since_body > MOST_HEAD and not self.transport.is_closing():
            self.send_400_response(_TOO_LONG)
        elif self._is_idle:
            # Also where the rest of a body comes that nobody will read: its request was refused.
            self._await_head()

    def on_headers_complete(self) -> None:
        self._cancel()
        if len(self.url) + sum(len(name) + len(value) for name, value in self.headers) > MOST_HEAD:
            self._since_body = MOST_HEAD + 1
            # httptools ends its reading, and uvicorn answers.
            raise ValueError(_TOO_LONG)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._since_body = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._since_body = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        super().send_400_response(_TOO_LONG if self._since_body > MOST_HEAD else msg)

    @property
    def _is_idle(self) -> bool:
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()

    def _await_head(self) -> None:
        if self._due is None:
            self._due = self.loop.call_later(self.head_s, self._end)

    def _cancel(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None

    def _end(self) -> None:
        self.transport.abort()
