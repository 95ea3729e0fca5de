"""Where words begin and end in text that may itself be JSON."""

import json
import re

# In JSON a word may follow an escape: in ``\njohn`` the n is part of a line feed, and removing it would leave a broken
# string. Fixed widths, as lookbehinds require.
START = rb"(?:(?<![A-Za-z0-9_])|(?<=\\[nrtbf])|(?<=\\u[0-9A-Fa-f]{4}))"
END = rb"(?![A-Za-z0-9_])"

_ESCAPE = re.compile(rb"[nrtbf]|u[0-9A-Fa-f]{4}")


def is_json(raw: bytes) -> bool:
    """Whether a text is a JSON object or array."""
    if raw.lstrip()[:1] not in (b"{", b"["):
        return False
    try:
        json.loads(raw)
    except (ValueError, RecursionError):
        return False
    return True


def starts_word(raw: bytes, at: int) -> bool:
    """Whether a word may start at byte ``at``: no letter, digit or underscore before it, except in a JSON escape."""
    if at == 0 or not (raw[at - 1 : at].isalnum() or raw[at - 1] == 0x5F):
        return True
    return after_escape(raw, at)


def after_escape(raw: bytes, at: int) -> bool:
    r"""Whether the bytes before ``at`` are a JSON escape such as ``\n`` or ``\u00e9``."""
    return (at >= 2 and raw[at - 2] == 0x5C and raw[at - 1] in b"nrtbf") or (
        at >= 6 and raw[at - 6 : at - 4] == b"\\u" and _ESCAPE.fullmatch(raw, at - 5, at) is not None
    )


def skip_escape(raw: bytes, at: int) -> int:
    """``at``, or the place after the escape that a backslash before ``at`` forms with the following letters."""
    if at == 0 or raw[at - 1] != 0x5C:
        return at
    match = _ESCAPE.match(raw, at)
    return match.end() if match else at


def ends_word(raw: bytes, at: int) -> bool:
    """Whether a word may end before byte ``at``: there is no letter, digit or underscore."""
    return at == len(raw) or not (raw[at : at + 1].isalnum() or raw[at] == 0x5F)
