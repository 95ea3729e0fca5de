"""One HTTP exchange with a judge's endpoint: to an address that was looked at, bounded in time and size, no redirects.

The name is resolved once and the connection goes to the address that was checked, so that a name which answers
differently the second time (DNS rebinding) reaches nothing else. Proxies of the environment are not used.
"""

import http.client
import ipaddress
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ft_resources.public_address import is_public, undisguised

MAX_BODY = 1 << 20
"""Bytes of an endpoint's answer; a judgement is a few kilobytes."""


class Refused(Exception):
    """The endpoint must not be asked: its name means an address that is none of its own. In words."""


class NotAnswered(Exception):
    """No whole answer came: in words for people, without anything the endpoint wrote."""


class TimedOut(NotAnswered):
    """No whole answer came in time."""


class TooLarge(NotAnswered):
    """More came than is read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reply:
    """An answer, whatever its status. ``headers`` by lower-case name."""

    status: int
    headers: dict[str, str] = field(repr=False)
    body: bytes = field(repr=False)


def post_json(url: str, body: bytes, headers: dict[str, str], *, timeout_s: float, private: bool) -> Reply:
    """POST ``body`` to ``url``.

    Args:
        timeout_s: for everything together, from the name's resolution to the last byte.
        private: whether the host may have an address that is not public. Link-local ones, where clouds keep
            credentials, are refused all the same.

    Raises Refused and NotAnswered.
    """
    parts = urlsplit(url)
    host, secure = parts.hostname or "", parts.scheme == "https"
    port = parts.port or (443 if secure else 80)
    ends = time.monotonic() + timeout_s
    try:
        address = _resolve(host, port, private=private)
    except OSError as error:
        raise NotAnswered(f"{host} has no address") from error
    connection = _Pinned(host, port, address=address, secure=secure, timeout=max(0.001, ends - time.monotonic()))
    # Each wait for bytes is bounded by the timeout, and bytes may come one by one: this bounds all of them.
    watch = threading.Timer(max(0.001, ends - time.monotonic()), connection.abort)
    watch.daemon = True
    watch.start()
    try:
        path = f"{parts.path or '/'}"
        connection.request("POST", path, body=body, headers={**headers, "Content-Type": "application/json"})
        response = connection.getresponse()
        found = response.read(MAX_BODY + 1)
        if len(found) > MAX_BODY:
            raise TooLarge(f"{host} answers with more than {MAX_BODY >> 20} MiB")
        if connection.aborted:
            raise TimedOut(f"{host} did not answer in {timeout_s:g} s")
        if response.length:
            raise NotAnswered(f"the connection to {host} broke before the end of its answer")
        named = {name.lower(): value for name, value in response.getheaders()}
        return Reply(status=response.status, headers=named, body=found)
    except NotAnswered:
        raise
    except ssl.SSLCertVerificationError as error:
        raise NotAnswered(f"the certificate of {host} is not valid for it") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        if connection.aborted or isinstance(error, TimeoutError):
            raise TimedOut(f"{host} did not answer in {timeout_s:g} s") from error
        raise NotAnswered(f"the connection to {host} broke ({type(error).__name__})") from error
    finally:
        watch.cancel()
        connection.close()


def _resolve(host: str, port: int, *, private: bool) -> str:
    """The first address of ``host``, if every one that its name has may be asked. Raises Refused and OSError."""
    found = [entry[4][0] for entry in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
    for text in found:
        # A scope such as %eth0 belongs to link-local addresses only.
        address = undisguised(ipaddress.ip_address(str(text).partition("%")[0]))
        never = address.is_link_local or address.is_multicast or address.is_unspecified
        if never or not (private or is_public(address)):
            raise Refused(f"{host} has the address {address}, which is not public")
    return str(found[0])


class _Pinned(http.client.HTTPConnection):
    """A connection to an address that was checked, which answers for the name it was found under."""

    def __init__(self, host: str, port: int, *, address: str, secure: bool, timeout: float) -> None:
        super().__init__(host, port, timeout=timeout)
        self._address = address
        self._context = ssl.create_default_context() if secure else None
        self._open: socket.socket | None = None
        self.aborted = False

    def connect(self) -> None:
        self._open = socket.create_connection((self._address, self.port), self.timeout)
        if self._context is not None:
            self._open = self._context.wrap_socket(self._open, server_hostname=self.host)
        self.sock = self._open

    def abort(self) -> None:
        """End whatever is being waited for."""
        self.aborted = True
        with suppress(OSError):
            if self._open is not None:
                # Not SSLSocket's own, which takes from the reading thread what it stands on.
                socket.socket.shutdown(self._open, socket.SHUT_RDWR)
