"""Valid receivers of notices. ``mail.py`` and ``webhook.py`` send, and import far more."""

import re
from urllib.parse import urlsplit

ADDRESS = re.compile(r"[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+")
PORTS = {"https": 443, "http": 80}
SECRET_PREFIX = "FT_WEBHOOK_"
"""Prefix of variables with the keys of webhooks' signatures."""


def check_address(text: str) -> str:
    """``text`` itself if it is a mail address. Raises ValueError otherwise."""
    if not ADDRESS.fullmatch(text) or len(text) > 254:
        raise ValueError("should be one mail address, such as ml-team@example.org")
    return text


def check_url(url: str) -> str:
    """``url`` itself if it is valid for a webhook. Raises ValueError, with the reason, otherwise."""
    parts = urlsplit(url)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("should be a URL in ASCII without spaces")
    if parts.scheme not in PORTS or not parts.hostname:
        raise ValueError("should be https://HOST/PATH")
    if parts.username or parts.password:
        raise ValueError("should have no user and password, as they would be visible in this file")
    if parts.fragment:
        raise ValueError("should have no #fragment")
    _ = parts.port  # Raises ValueError if the port is invalid.
    return url
