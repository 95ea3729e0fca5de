"""Passwords and keys that are recognised by their context: a name, a header, a URL, the frame of a PEM file."""

import base64
import re
from collections.abc import Iterator

from ft_assets.workers.datasets.screening.found import Span
from ft_assets.workers.datasets.screening.tokens import entropy

_NAME = re.compile(
    rb"(?:pass(?:word|wd|phrase)?|pwd|(?:client|app|api|consumer|shared|webhook|jwt|signing|auth)?[_-]?secret"
    rb"(?:[_-]?(?:access[_-]?)?key)?|(?:api|access|auth|bearer|refresh|session|secret|id|bot|private|encryption|"
    rb"account|service|subscription|master)[_ -]?(?:key|token)|token)[\"'`\\\] ]{0,6}$",
    re.IGNORECASE,
)
# No quotes, backslashes or brackets, so that a value ends where its string does.
_VALUE = re.compile(
    rb"(?::=|=>|==|=|:)[ ]{0,3}(?:\\*[\"'`])?([^\s\"'`\\,;<>(){}\[\]|&]{6,256})(?![^\s\"'`\\,;<>)}\]|&])"
)
_NOT_SECRET = re.compile(
    rb"example|your|change|placeholder|dummy|redacted|hidden|xxx|\*\*|\.\.\.|\$|%|^https?:"
    rb"|^(?:none|null|true|false|undefined|required|optional|string)$|^[0-9.:/-]+$",
    re.IGNORECASE,
)

# Names of variables and files; random letters with a slash have a higher entropy.
_JOINED_NAMES = re.compile(rb"^[A-Za-z_]+(?:[.:/-][A-Za-z_]+)+")
_MAX_NAME_ENTROPY = 4.5

# As in access_token_123, which is a placeholder for a token.
_TELLS_NAME = re.compile(rb"token|secret|api_?key", re.IGNORECASE)


_HEADER_NAME = re.compile(rb"authorization[\"'`\\\] ]{0,6}$", re.IGNORECASE)
_CREDENTIALS = re.compile(
    rb"[:=][ ]{0,3}(?:\\*[\"'`])?(bearer|basic|token|bot|apikey|ssws)[ ]{1,3}([A-Za-z0-9._~+/-]{8,4096}=*)",
    re.IGNORECASE,
)


def find_named(raw: bytes, at: int) -> Iterator[Span]:
    """What is secret after the ``=`` or ``:`` at byte ``at``, if a secret's name or ``Authorization`` precedes it."""
    if _HEADER_NAME.search(raw, max(0, at - 24), at):
        yield from _find_credentials(raw, at)
    else:
        yield from _find_assigned(raw, at)


def _find_credentials(raw: bytes, at: int) -> Iterator[Span]:
    """The credentials of an HTTP header (RFC 7617, RFC 6750), without the scheme's name.

    Those of ``Basic`` are a name, a colon and a password in base64; others have at least 16 characters, a digit, and 3
    bits per character.
    """
    match = _CREDENTIALS.match(raw, at)
    if match is None:
        return
    scheme, value = match.groups()
    if scheme.lower() == b"basic":
        plausible = b":" in _decoded(value)
    else:
        plausible = len(value) >= 16 and _has_digit(value) and entropy(value) >= 3.0
    if plausible:
        yield Span(*match.span(2), "secret")


def _decoded(value: bytes) -> bytes:
    try:
        return base64.b64decode(value + b"=" * (-len(value) % 4))
    except ValueError:
        return b""


def _find_assigned(raw: bytes, at: int) -> Iterator[Span]:
    """The value after a secret's name, if it looks like a secret.

    A password has at least 6 characters, a letter and a digit, and 2.5 bits per character (entropy); another secret at
    least 16 characters and 3 bits. Names, variables (``$X``), URLs and placeholders do not count.
    """
    name = _NAME.search(raw, max(0, at - 48), at)
    match = _VALUE.match(raw, at)
    if name is None or match is None:
        return
    start, end = match.span(1)
    # A full stop after the value belongs to the sentence, unless the value is quoted.
    while raw[end : end + 1] not in (b'"', b"'", b"`", b"\\") and raw[end - 1] in b".!?:" and end > start:
        end -= 1
    value = raw[start:end]
    if _NOT_SECRET.search(value) or not any(chr(byte).isalpha() for byte in value):
        return
    if _JOINED_NAMES.match(value) and entropy(value) < _MAX_NAME_ENTROPY:
        return
    if name.group()[:2].lower() in (b"pa", b"pw"):
        plausible = len(value) >= 6 and not value.isalpha() and _has_digit(value) and entropy(value) >= 2.5
    else:
        named = _TELLS_NAME.search(value) is not None
        plausible = len(value) >= 16 and not named and _has_digit(value) and entropy(value) >= 3.0
    if plausible:
        yield Span(start, end, "secret")


_USER = re.compile(rb"://[^\s\"'`\\<>/@:]{0,128}:([^\s\"'`\\<>/@]{1,128})@[A-Za-z0-9\[]")


def find_url_passwords(raw: bytes, at: int) -> Iterator[Span]:
    """The password in the URL (``https://user:password@host``) whose ``://`` is at byte ``at``."""
    match = _USER.match(raw, at)
    if match and not re.search(rb"[${}%]|^(?:pass(?:word)?|pwd|port|\*+|x+)$", match.group(1), re.IGNORECASE):
        yield Span(*match.span(1), "secret")


_HEADER = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
# Line ends, literal or as JSON escapes; hyphens only if they do not begin a line of five.
_BODY = re.compile(rb"(?:[A-Za-z0-9+/=:,. \t\r\n]|-(?!----)|\\+[nrt])*")
_FOOTER = re.compile(rb"-----END (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----")
_CUT_BODY = re.compile(rb"(?:(?:[\r\n]|\\+[nr]){1,4}[A-Za-z0-9+/=]{16,76})+")


def find_private_keys(raw: bytes, at: int, _: int) -> Iterator[Span]:
    """The PEM or PGP private key (RFC 7468) that begins at byte ``at``; if truncated, the part that is there."""
    header = _HEADER.match(raw, at)
    if header is None:
        return
    body = _BODY.match(raw, header.end())
    footer = _FOOTER.match(raw, body.end()) if body else None
    if footer:
        yield Span(at, footer.end(), "secret")
        return
    cut = _CUT_BODY.match(raw, header.end())
    if cut:
        yield Span(at, cut.end(), "secret")


def _has_digit(value: bytes) -> bool:
    return any(48 <= byte <= 57 for byte in value)
