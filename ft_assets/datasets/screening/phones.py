"""Phone numbers, by libphonenumber's rules."""

import re
from collections.abc import Iterator
from functools import lru_cache

from ft_assets.datasets.screening.boundaries import ends_word, starts_word
from ft_assets.datasets.screening.found import Span

_DIGITS = re.compile(rb"[0-9]+")
_BETWEEN = re.compile(rb"[ .\-/\t]?[ ]?\(?[ ]?|\)[ .\-/]{0,2}|\(0\)")
_EXTENSION = re.compile(rb"[ ,;]{0,2}(?:x|ext\.?|extension)[ :.]?[0-9]{1,6}(?![A-Za-z0-9])", re.IGNORECASE)
_SPOKEN_BEFORE = re.compile(
    rb"(?:phones?|tel|telephone|mobile|cell|fax|desk|call(?:ing|ed)?(?: \w+)?(?: at| on)?|dial|ring|text|sms|whatsapp|"
    rb"hotline|helpline|messages? to|answering at|contact(?: \w+)? (?:at|on)|registered|reach(?: \w+)? (?:at|on))"
    rb"(?: (?:number|no|nr|#|is))*[.:#]?[ \t]*(?:\r?\n|\\n)?[ \t+(]*$",
    re.IGNORECASE,
)
_SPOKEN_AFTER = re.compile(rb"[ \t]?[ -]?\(?(?:office|fax|mobile|cell|home|work|landline)\b", re.IGNORECASE)
_DATE = re.compile(rb"(?:19|20)[0-9]{2}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./](?:19|20)[0-9]{2}")
_YEARS = re.compile(rb"(?:1[0-9]|20)[0-9]{2} ?[-/] ?(?:1[0-9]|20)[0-9]{2}")
_MAX_GROUPS = 7


def find_phones(raw: bytes, start: int, end: int, region: str) -> Iterator[Span]:
    """Phone numbers in the run ``raw[start:end]`` of digits and separators.

    A number counts where it is valid in ``region`` (or with its country code, after + or 00) and is written in groups,
    or where a phone is spoken of right before or after it and it has 7 to 15 digits; then of any country. Without
    that, ten digits in one piece are not taken for a phone number, as a third of all such numbers are valid in the
    United States. An extension (``x12``, ``ext. 12``) belongs to the number.
    """
    groups = [match.span() for match in _DIGITS.finditer(raw, start, end)]
    first = 0
    while first < len(groups):
        following = _phone_from(raw, groups, first, region)
        if following == first:
            first += 1
            continue
        begin, stop = groups[first][0], groups[following - 1][1]
        opening = re.compile(rb"(?:\+ ?\(?|\(\+?)$").search(raw, max(0, begin - 3), begin)
        if opening and (opening.group() != b"(" or b")" in raw[begin:stop]):
            begin = opening.start()
        extension = _EXTENSION.match(raw, stop)
        yield Span(begin, extension.end() if extension else stop, "phone")
        first = following


def _phone_from(raw: bytes, groups: list[tuple[int, int]], first: int, region: str) -> int:
    """The group behind the phone number that starts with group ``first``; ``first`` where none does."""
    begin = groups[first][0]
    before = raw[max(0, begin - 48) : begin]
    if not starts_word(raw, begin) or re.search(rb"(?:[0-9][.,]|[$\xa3#]|\xe2\x82\xac ?)$", before):
        return first
    international = before[-1:] == b"+" or before[-2:] in (b"+ ", b"+(", b"(+") or raw[begin : begin + 2] == b"00"
    spoken = _SPOKEN_BEFORE.search(before) is not None
    digits = b""
    windows = []
    for at in range(first, min(first + _MAX_GROUPS, len(groups))):
        low, high = groups[at]
        if at > first and not _BETWEEN.fullmatch(raw, groups[at - 1][1], low):
            break
        digits += raw[low:high]
        if len(digits) > 15:
            break
        if len(digits) >= 7 and _may_end(raw, high):
            windows.append((at + 1, digits))
    for following, digits in reversed(windows):
        stop = groups[following - 1][1]
        text = raw[begin:stop]
        grouped = following - first > 1
        spoken_here = spoken or _SPOKEN_AFTER.match(raw, stop) is not None
        if _DATE.match(text) or _YEARS.fullmatch(text):
            continue
        if international and is_valid("+" + digits.decode().removeprefix("00"), region):
            return following
        if (grouped or spoken_here) and is_valid(digits.decode(), region):
            return following
    for following, _ in reversed(windows):
        stop = groups[following - 1][1]
        if (spoken or _SPOKEN_AFTER.match(raw, stop)) and not _DATE.match(raw, begin):
            return following
    return first


def _may_end(raw: bytes, at: int) -> bool:
    if raw[at : at + 1] in (b".", b",", b"%") and (raw[at] == 0x25 or raw[at + 1 : at + 2].isdigit()):
        return False
    return ends_word(raw, at) or _EXTENSION.match(raw, at) is not None


@lru_cache(maxsize=65536)
def is_valid(number: str, region: str) -> bool:
    """Whether libphonenumber calls ``number`` (digits, + before a country code) valid, dialled in ``region``."""
    import phonenumbers

    try:
        # A zero in brackets, as in +46 (0)8, is dialled inside the country only.
        parsed = phonenumbers.parse(number, region)
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(parsed)
