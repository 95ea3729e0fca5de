"""Keys, tokens, passwords and private keys."""

import math
import re
from collections import Counter
from collections.abc import Iterator

from ft_assets.workers.datasets.screening.boundaries import END, START
from ft_assets.workers.datasets.screening.found import Span

# Forms as their issuers document them. Each is certain enough by itself except the last, whose prefixes are short.
_CERTAIN = (
    rb"(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}",  # AWS access key id
    rb"gh[pousr]_[A-Za-z0-9]{36,255}",  # GitHub
    rb"github_pat_[A-Za-z0-9_]{40,255}",
    rb"gl(?:pat|dt|rt|cbt|ptt)-[A-Za-z0-9_-]{20,64}",  # GitLab
    rb"xox[abeoprs][-.](?:xox[a-z]-)?[A-Za-z0-9-]{10,250}",  # Slack
    rb"xapp-[0-9]-[A-Z0-9]+-[0-9]+-[A-Za-z0-9]{16,128}",
    rb"AIza[A-Za-z0-9_-]{35}",  # Google
    rb"GOCSPX-[A-Za-z0-9_-]{28}",
    rb"ya29\.[A-Za-z0-9_-]{20,1024}",
    rb"[sr]k_(?:live|test)_[A-Za-z0-9]{16,250}",  # Stripe
    rb"whsec_[A-Za-z0-9+/=]{24,100}",
    rb"hf_[A-Za-z0-9]{30,60}",  # Hugging Face
    rb"npm_[A-Za-z0-9]{36}",
    rb"pypi-[A-Za-z0-9_-]{50,255}",
    rb"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,64}",  # SendGrid
    rb"shpat_[0-9a-fA-F]{32}",  # Shopify
    rb"dop_v1_[0-9a-f]{64}",  # DigitalOcean
    # JSON web token (RFC 7519)
    rb"(?<![-.])eyJ[A-Za-z0-9_-]{10,4096}+\.eyJ[A-Za-z0-9_-]{10,8192}+\.[A-Za-z0-9_-]{10,1024}",
    rb"sk-(?:proj-|svcacct-|admin-|ant-[a-z0-9]{2,8}-|or-v1-)?[A-Za-z0-9_-]{20,255}",  # OpenAI, Anthropic and others
)
_TOKEN = re.compile(START + rb"(?:" + rb"|".join(rb"(?:%s)" % form for form in _CERTAIN) + rb")" + END)
# Bits per character; placeholders such as ghp_xxxxxxxx stay far below it, random hexadecimal reaches 3.4 at 32.
_MIN_TOKEN_ENTROPY = 3.0


def find_token(raw: bytes, start: int) -> Iterator[Span]:
    """The token of a known form at ``start``: random enough, and with a digit if the prefix is only ``sk-``."""
    match = _TOKEN.match(raw, start)
    if match is None:
        return
    value = match.group()
    if entropy(value) < _MIN_TOKEN_ENTROPY:
        return
    if value.startswith(b"sk-") and not (_has_digit(value) and entropy(value) >= 3.5):
        return
    yield Span(match.start(), match.end(), "secret")


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
    rb"example|your|change|placeholder|dummy|redacted|hidden|xxx|\*\*|\.\.\.|\$|%|^https?:|^[A-Za-z_]+(?:[.:/-][A-Za-z_]+)+"
    rb"|^(?:none|null|true|false|undefined|required|optional|string)$|^[0-9.:/-]+$",
    re.IGNORECASE,
)

# As in access_token_123, which is a placeholder for a token.
_TELLS_NAME = re.compile(rb"token|secret|api_?key", re.IGNORECASE)


def find_assignments(raw: bytes, at: int) -> Iterator[Span]:
    """The value after the ``=`` or ``:`` at byte ``at``, if it looks like a secret and a secret's name precedes it.

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


def find_private_keys(raw: bytes, at: int) -> Iterator[Span]:
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


def entropy(value: bytes) -> float:
    """Shannon entropy of the bytes' frequencies, bits per byte."""
    total = len(value)
    return -sum(count / total * math.log2(count / total) for count in Counter(value).values())


def _has_digit(value: bytes) -> bool:
    return any(48 <= byte <= 57 for byte in value)
