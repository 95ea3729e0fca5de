"""One signed JSON POST to an address that a configuration names.

The address is not trusted: HTTPS with a checked certificate, no redirects, no proxies, no address inside our own
network (the name is resolved once, and the connection uses that address), only the status of the answer is read, and
one deadline covers everything. For hosts in ``FT_NOTIFY_HOSTS``, plain HTTP and private addresses are allowed.

The signature is ``FT-Signature: t=SECONDS,v1=HEX``, where HEX is the HMAC-SHA256 of ``SECONDS.BODY``. A receiver that
checks it and refuses old times is safe from replayed messages.
"""

import hashlib
import hmac
import http.client
import time
from collections.abc import Collection
from urllib.parse import urlsplit

from ft_resources import pinned_http
from ft_resources.messages import Message, NotSent
from ft_resources.public_address import is_public
from ft_resources.receivers import PORTS

SIGNATURE, EVENT_ID = "FT-Signature", "FT-Event-Id"


def allowed_hosts(text: str) -> frozenset[str]:
    """Comma-separated hosts, or ``host:port``, for which plain HTTP and private addresses are allowed."""
    return frozenset(host.strip().lower() for host in text.split(",") if host.strip())


def sign(secret: bytes, body: bytes, at: int) -> str:
    """The value of the signature header for ``body``, sent at ``at`` seconds since the epoch."""
    mac = hmac.new(secret, f"{at}.".encode() + body, hashlib.sha256).hexdigest()
    return f"t={at},v1={mac}"


def post(url: str, message: Message, *, secret: bytes, hosts: Collection[str], timeout_s: float) -> None:
    """POST the message's payload. Raises NotSent unless a status of 200 to 299 comes back within ``timeout_s``."""
    parts = urlsplit(url)
    host, scheme = parts.hostname or "", parts.scheme
    port = parts.port or PORTS[scheme]
    trusted = host in hosts or f"{host}:{port}" in hosts
    if scheme != "https" and not trusted:
        raise _failed(url, "it is plain HTTP", "Use https, or name the host in FT_NOTIFY_HOSTS.")
    body = message.body
    headers = {
        "User-Agent": "ft-notices/1",
        "Connection": "close",
        EVENT_ID: message.id,
        SIGNATURE: sign(secret, body, int(time.time())),
    }
    try:
        allowed = (lambda address: True) if trusted else is_public
        status = pinned_http.post(url, body, headers, timeout_s=timeout_s, allowed=allowed).status
    except pinned_http.Refused as error:
        raise _failed(url, str(error), "Use a public address, or name the host in FT_NOTIFY_HOSTS.") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = type(error).__name__ if not str(error) else f"{type(error).__name__}: {error}"
        raise _failed(url, f"no answer ({reason[:200]})", "Check that the daemon can reach it.") from error
    if not 200 <= status < 300:
        raise _failed(url, f"it answered {status}", "It must answer 200 to 299; redirects are not followed.")


def _failed(url: str, what: str, remedy: str) -> NotSent:
    # A path or query may contain a token, so only the host is shown.
    return NotSent(what, where=f"webhook of {urlsplit(url).hostname}", remedy=remedy)
