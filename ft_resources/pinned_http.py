"""One HTTP exchange with a host that a configuration names: to a checked address, bounded in time and size.

The name is resolved once and the connection goes to the checked address, so a name that resolves differently the second
time (DNS rebinding) reaches nothing else. Redirects are not followed, and the environment's proxies are not used.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ft_resources.public_address import Address, undisguised


class Refused(Exception):
    """The host has an address that is not allowed. The message is for people."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """A response of any status. ``headers`` by lower-case name; ``body`` has one byte too many if it was cut."""

    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def post(
    url: str,
    body: bytes,
    headers: dict[str, str],
    *,
    timeout_s: float,
    allowed: Callable[[Address], bool],
    most_bytes: int = 0,
) -> Reply:
    """POST the JSON ``body`` to ``url``.

    Args:
        timeout_s: for the whole exchange, from name resolution to the last byte.
        allowed: whether an address may be connected to; every address of the host must be.
        most_bytes: how much of the response's body is read.

    Raises Refused, TimeoutError, and what ``http.client`` raises: OSError, HTTPException and ValueError.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    ends = time.monotonic() + timeout_s
    addresses = [str(entry[4][0]) for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for text in addresses:
        # Only link-local addresses have a scope such as %eth0.
        address = undisguised(ipaddress.ip_address(text.partition("%")[0]))
        if not allowed(address):
            raise Refused(f"{host} is {address}, which is not a public address")
    left = max(0.001, ends - time.monotonic())
    connection = _Pinned(host, port, address=addresses[0], secure=secure, timeout=left)
    # A socket's timeout bounds each wait for bytes, and bytes may arrive one by one: this bounds the sum.
    watch = threading.Timer(left, connection.abort)
    watch.daemon = True
    watch.start()
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body=body, headers={**headers, "Content-Type": "application/json"})
        response = connection.getresponse()
        found = response.read(most_bytes + 1) if most_bytes else b""
        # A cut connection may look like a complete answer.
        if connection.aborted and len(found) <= most_bytes:
            raise TimeoutError("it took too long")
        if most_bytes and response.length and len(found) <= most_bytes:
            raise http.client.IncompleteRead(found, response.length)
        named = {name.lower(): value for name, value in response.getheaders()}
        return Reply(status=response.status, headers=named, body=found)
    except (OSError, http.client.HTTPException, ValueError) as error:
        if connection.aborted:
            raise TimeoutError("it took too long") from error
        raise
    finally:
        watch.cancel()
        connection.close()


class _Pinned(http.client.HTTPConnection):
    """A connection to a checked address; the host's name serves for the request and the certificate."""

    def __init__(self, host: str, port: int, *, address: str, secure: bool, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self._address = address
        self._context = ssl.create_default_context() if secure else None
        self._open: socket.socket | None = None
        self.aborted = False

    def connect(self) -> None:
        # Known before the handshake begins, so that the handshake can be cut too.
        self._open = self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._context is not None:
            self._open = self.sock = self._context.wrap_socket(self._open, server_hostname=self.host)

    def abort(self) -> None:
        """Abort any pending wait."""
        self.aborted = True
        with suppress(OSError):
            if self._open is not None:
                # Not SSLSocket's own shutdown, which discards state that the reading thread still needs.
                socket.socket.shutdown(self._open, socket.SHUT_RDWR)
