"""One HTTP exchange with a judge's endpoint: to a checked address, bounded in time and size, no redirects."""

import http.client
import ssl
from urllib.parse import urlsplit

from ft_resources import pinned_http
from ft_resources.public_address import Address, is_public

MAX_BODY = 1 << 20
"""Largest response in bytes; a judgement is a few kilobytes."""


class NotAnswered(Exception):
    """No complete response. The message is for people and contains nothing that the endpoint sent."""


class TimedOut(NotAnswered):
    """No complete response in time."""


class TooLarge(NotAnswered):
    """The response exceeds the size limit."""


def post_json(url: str, body: bytes, headers: dict[str, str], *, timeout_s: float, private: bool) -> pinned_http.Reply:
    """POST ``body`` to ``url``, within ``timeout_s`` for the whole exchange.

    Args:
        private: whether the host may have an address that is not public. Link-local ones, where clouds serve
            credentials, are always refused.

    Raises pinned_http.Refused and NotAnswered.
    """

    def allowed(address: Address) -> bool:
        never = address.is_link_local or address.is_multicast or address.is_unspecified
        return not never and (private or is_public(address))

    host = urlsplit(url).hostname
    try:
        reply = pinned_http.post(url, body, headers, timeout_s=timeout_s, allowed=allowed, most_bytes=MAX_BODY)
    except TimeoutError as error:
        raise TimedOut(f"{host} did not answer in {timeout_s:g} s") from error
    except ssl.SSLCertVerificationError as error:
        raise NotAnswered(f"the certificate of {host} is not valid for it") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise NotAnswered(f"the connection to {host} broke ({type(error).__name__})") from error
    if len(reply.body) > MAX_BODY:
        raise TooLarge(f"{host} returned more than {MAX_BODY >> 20} MiB")
    return reply
