"""One signed JSON POST to an address that a configuration names.

The address is not trusted: HTTPS with a checked certificate, no redirects, no proxies, no address inside our own
network (the name is resolved once, and that very address is connected to), an answer that is not read beyond its
status, and one deadline for all of it. ``FT_NOTIFY_HOSTS`` lists hosts to which none of the first rules apply.

The signature is ``FT-Signature: t=SECONDS,v1=HEX`` with HEX the HMAC-SHA256 of ``SECONDS.BODY``: who checks it and
refuses times that are long ago cannot be given an old message again.
"""

import hashlib
import hmac
import http.client
import ipaddress
import socket
import ssl
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

from ft_resources.notifier import Message, NotSent
from ft_resources.public_address import is_public

SIGNATURE, EVENT_ID = "FT-Signature", "FT-Event-Id"
_PORTS = {"https": 443, "http": 80}


def allowed_hosts(text: str) -> frozenset[str]:
    """Hosts, or ``host:port``, separated by commas, to which plain HTTP and private addresses are allowed."""
    return frozenset(host.strip().lower() for host in text.split(",") if host.strip())


def sign(secret: bytes, body: bytes, at: int) -> str:
    """The value of the signature header for ``body``, sent at ``at`` seconds since the epoch."""
    mac = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={mac}"


def check_url(url: str) -> str:
    """``url`` itself where it can be a webhook's. Raises ValueError, which says what is wrong with it."""
    parts = urlsplit(url)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("should be a URL in ASCII without spaces")
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError("should be https://HOST/PATH")
    if parts.username or parts.password:
        raise ValueError("should have no user and password: they would be read by whoever reads this file")
    if parts.fragment:
        raise ValueError("should have no #fragment")
    _ = parts.port  # Raises ValueError where it is no port.
    return url


def post(url: str, message: Message, *, secret: bytes, hosts: Collection[str], timeout_s: float) -> None:
    """POST the message's payload. Raises NotSent unless a status of 200 to 299 comes back within ``timeout_s``."""
    parts = urlsplit(url)
    host, scheme = parts.hostname or "", parts.scheme
    port = parts.port or _PORTS[scheme]
    trusted = host in hosts or f"{host}:{port}" in hosts
    if scheme != "https" and not trusted:
        raise _failed(url, "it is plain HTTP", "Use https, or name the host in FT_NOTIFY_HOSTS.")
    body = message.body
    headers = {
        "Content-Type": "application/json",
        "User-Agent": "ft-notices/1",
        "Connection": "close",
        EVENT_ID: message.id,
        SIGNATURE: sign(secret, body, int(time.time())),
    }
    try:
        connection = _connection(host, port, secure=scheme == "https", trusted=trusted, timeout_s=timeout_s)
        with _deadline(connection, timeout_s) as cut:
            path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
            connection.request("POST", path, body=body, headers=headers)
            status = connection.getresponse().status
            if cut.is_set():
                # What came before the cut may look like the end of an answer.
                raise TimeoutError("it took too long")
    except _Refused as error:
        raise _failed(url, str(error), "Use a public address, or name the host in FT_NOTIFY_HOSTS.") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = type(error).__name__ if not str(error) else f"{type(error).__name__}: {error}"
        raise _failed(url, f"no answer ({reason[:200]})", "Check that it can be reached from the daemon.") from error
    if not 200 <= status < 300:
        raise _failed(url, f"it answered {status}", "Answer 200 to 299; redirects are not followed.")


class _Refused(Exception):
    """The address must not be connected to."""


class _Pinned(http.client.HTTPConnection):
    """A connection to an address that was looked at; the name is only what is asked for and what is certified."""

    def __init__(self, host: str, port: int, address: str, *, secure: bool, timeout_s: float) -> None:
        super().__init__(host, port, timeout=timeout_s)
        self._address, self._secure = address, secure

    def connect(self) -> None:
        """Connect to the address."""
        self.sock = socket.create_connection((self._address, self.port), self.timeout)
        if self._secure:
            context = ssl.create_default_context()
            # Known before the handshake begins, so that it can be cut too.
            secure = context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock = secure
            secure.do_handshake()


def _connection(host: str, port: int, *, secure: bool, trusted: bool, timeout_s: float) -> _Pinned:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    addresses = [str(entry[4][0]) for entry in found]
    if not trusted:
        inside = [each for each in addresses if not is_public(ipaddress.ip_address(each.partition("%")[0]))]
        if inside:
            raise _Refused(f"{host} is {inside[0]}, which is no public address")
    return _Pinned(host, port, addresses[0], secure=secure, timeout_s=timeout_s)


@contextmanager
def _deadline(connection: _Pinned, timeout_s: float) -> Iterator[threading.Event]:
    """Cut the connection after ``timeout_s``, and set what is given: a timeout of a socket is of one read, and never
    ends a byte a second."""
    over = threading.Event()

    def cut() -> None:
        over.set()
        sock = connection.sock
        if sock is not None:
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                return

    timer = threading.Timer(timeout_s, cut)
    timer.daemon = True
    timer.start()
    try:
        yield over
    finally:
        timer.cancel()
        connection.close()


def _failed(url: str, what: str, remedy: str) -> NotSent:
    # A path or query may hold a token, so only the host is told.
    return NotSent(what, where=f"webhook of {urlsplit(url).hostname}", remedy=remedy)
