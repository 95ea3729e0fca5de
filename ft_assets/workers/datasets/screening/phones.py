"""Phone numbers, by libphonenumber's rules."""

import re
from collections.abc import Iterator
from functools import lru_cache
from itertools import pairwise

from ft_assets.workers.datasets.screening.boundaries import ends_word, starts_word
from ft_assets.workers.datasets.screening.figures import are_figures
from ft_assets.workers.datasets.screening.found import Span
from ft_assets.workers.datasets.screening.phone_regions import ALL, Regions
from ft_assets.workers.datasets.screening.phone_words import COUNTED_AFTER, SPOKEN_AFTER, SPOKEN_BEFORE

_DIGITS = re.compile(rb"[0-9]+")
_BETWEEN = re.compile(rb"[ .\-/\t]?[ ]?\(?[ ]?|\)[ .\-/]{0,2}")
_EXTENSION = re.compile(rb"[ ,;]{0,2}(?:x|ext\.?|extension)[ :.]?[0-9]{1,6}(?![A-Za-z0-9])", re.IGNORECASE)
_DATE = re.compile(rb"(?:19|20)[0-9]{2}[-./][0-9]{1,2}[-./][0-9]{1,2}|[0-9]{1,2}[-./][0-9]{1,2}[-./](?:19|20)[0-9]{2}")
_YEARS = re.compile(rb"(?:1[0-9]|20)[0-9]{2} ?[-/ ] ?(?:1[0-9]|20)[0-9]{2}")
_INTERNATIONAL = re.compile(rb"\+[ (]?$")
_OPENING = re.compile(rb"(?:\+[ (]?|\(\+?)$")
# Decimals, amounts, issue and order numbers, parts of addresses, and numbers whose text says what they are.
_NO_PHONE_BEFORE = re.compile(
    rb"[0-9][.,]$|(?:[$#=]|\xc2\xa3|\xe2\x82\xac) ?$|/$|"
    rb"\b(?:isbn|issn|doi|arxiv|pmid|order (?:no|number|id)|invoice|account|serial|ssn)\b[^0-9]{0,12}$",
    re.IGNORECASE,
)
# The prefix exists, but people leave it out, at least in mobile numbers.
_WRITTEN_WITHOUT_TRUNK = frozenset(("CN", "IN", "BR", "AR", "PK", "BD", "MX"))
_MAX_GROUPS = 7
_SHORTEST = 8
_MIN_DIGITS = 7
_NORTH_AMERICA = ((3, 3, 4), (1, 3, 3, 4), (3, 7), (1, 3, 7))


def find_phones(raw: bytes, start: int, end: int, regions: Regions) -> Iterator[Span]:
    """Phone numbers in the run ``raw[start:end]`` of digits and separators.

    A number counts if libphonenumber considers it valid, with its country code (after + or 00) or as dialled in one of
    the likely regions and grouped as phone numbers are. It also counts, for any country, if the text right before or
    after it mentions a phone and it has 7 to 15 digits. Otherwise ten digits in one piece do not count: a third of all
    such numbers are valid in the United States. An extension (``x12``, ``ext. 12``) belongs to the number.

    Where the regions are inferred, more is asked of a number: see ``_is_dialled_somewhere``.
    """
    # Most runs are years and the like: too short ones are skipped at once.
    if end - start < (_SHORTEST if regions.inferred else _shortest(regions.likely[0])) and not (
        _is_spoken_of(raw, start) or _is_spoken_after(raw, end) or _INTERNATIONAL.search(raw, max(0, start - 2), start)
    ):
        return
    groups = [match.span() for match in _DIGITS.finditer(raw, start, end)]
    first = 0
    while first < len(groups):
        following = _phone_from(raw, groups, first, regions)
        if following == first:
            first += 1
            continue
        begin, stop = groups[first][0], groups[following - 1][1]
        opening = _OPENING.search(raw, max(0, begin - 3), begin)
        if opening and (opening.group() != b"(" or b")" in raw[begin:stop]):
            begin = opening.start()
        extension = _EXTENSION.match(raw, stop)
        yield Span(begin, extension.end() if extension else stop, "phone")
        first = following


def _phone_from(raw: bytes, groups: list[tuple[int, int]], first: int, regions: Regions) -> int:
    """The index after the last group of the phone number that starts at group ``first``; ``first`` if there is none."""
    windows = _windows(raw, groups, first)
    begin = groups[first][0]
    if not windows or not starts_word(raw, begin) or _NO_PHONE_BEFORE.search(raw, max(0, begin - 24), begin):
        return first
    international = raw[begin : begin + 2] == b"00" or _INTERNATIONAL.search(raw, max(0, begin - 3), begin) is not None
    spoken = _is_spoken_of(raw, begin)
    for following, digits in windows:
        stop = groups[following - 1][1]
        if international and is_valid(_international(raw[begin:stop]), "US"):
            return following
        text = raw[begin - (raw[begin - 1 : begin] == b"(") : stop]
        sizes = tuple(high - low for low, high in groups[first:following])
        if spoken or _is_spoken_after(raw, stop):
            if any(is_valid(digits, region) for region in regions.likely):
                return following
        elif _are_figures(raw, groups, first, following):
            continue
        elif regions.inferred:
            if not _is_counted(raw, stop) and _is_dialled_somewhere(text, digits, sizes, regions):
                return following
        elif is_valid(digits, regions.likely[0]) and (
            _is_grouped(text, sizes, regions.likely[0])
            or (len(sizes) > 1 and _is_written(text, digits, sizes, regions.likely[0]))
        ):
            return following
    for following, _ in windows:
        if spoken or _is_spoken_after(raw, groups[following - 1][1]):
            return following
    return first


def _international(text: bytes) -> str:
    """``text``, a number with its country code, as digits: without the (0) that some write between."""
    return "+" + re.sub(rb"[^0-9]", b"", text.replace(b"(0)", b"")).decode().removeprefix("00")


def _is_dialled_somewhere(text: bytes, digits: str, sizes: tuple[int, ...], regions: Regions) -> bool:
    """Whether ``text`` is a valid number of a likely region, written as numbers are there, or has a form that is rare
    among other numbers: grouped as in some country, with a zero or an area code in brackets at its beginning."""
    trunk, bracket = digits[0] == "0", b"(" in text[:4] and b")" in text
    if len(sizes) == 1:
        # One piece: with a leading zero, which most other numbers do not have, or a mobile number of China.
        plausible = trunk or (len(digits) == 11 and digits[0] == "1" and "CN" in regions.likely)
        return plausible and 9 <= len(digits) <= 11 and any(is_valid(digits, region) for region in regions.likely[:-1])
    separators = set(text) & set(b".-/(")
    # Decimals, versions, years in brackets; eight digits with a hyphen are as often a span of years.
    if not (trunk or bracket or (sizes in _NORTH_AMERICA and b"/" not in text)) and separators - (
        {0x2D} if len(digits) > 8 else set()
    ):
        return False
    spaced = not separators
    for region in regions.likely:
        if not (trunk or bracket or not needs_trunk(region)):
            continue
        loosely = _is_grouped(text, sizes, region) and (bracket or country_code(region) == 1 or (trunk and spaced))
        if (loosely and is_valid(digits, region)) or _is_written(text, digits, sizes, region):
            return True
    if not (bracket or (trunk and (spaced or len(digits) >= 10))) or set(text) & set(b"./"):
        return False
    return any(sizes in written_sizes(digits, region) for region in ALL)


def _are_figures(raw: bytes, groups: list[tuple[int, int]], first: int, following: int) -> bool:
    """Whether the groups from ``first`` to before ``following``, with white space between, are figures in a row, or
    part of a longer row."""
    begin, stop = groups[first][0], groups[following - 1][1]
    if following - first < 2 or raw[begin : begin + 1] == b"0" or raw[begin - 1 : begin] in (b"+", b"("):
        return False
    row = groups[max(0, first - 1) : following + 1]
    spaced = [raw[before[1] : after[0]].isspace() for before, after in pairwise(row)]
    inside = spaced[first > 0 : len(spaced) - (following < len(groups))]
    beside = [spaced[0]] * (first > 0) + [spaced[-1]] * (following < len(groups))
    return all(inside) and (any(beside) or are_figures(raw[begin:stop]))


def _windows(raw: bytes, groups: list[tuple[int, int]], first: int) -> list[tuple[int, str]]:
    """(index after the last group, digits) of possible phone numbers from group ``first`` on, the longest first."""
    begin = groups[first][0]
    digits = b""
    singles = 0
    windows: list[tuple[int, str]] = []
    for at in range(first, min(first + _MAX_GROUPS, len(groups))):
        low, high = groups[at]
        if at > first and not _BETWEEN.fullmatch(raw, groups[at - 1][1], low):
            break
        digits += raw[low:high]
        # Rows of single digits are not phone numbers, and there may be a million of them.
        singles += high - low == 1
        if singles > 2:
            break
        if len(digits) > 15:
            break
        text = raw[begin:high]
        if len(digits) >= _MIN_DIGITS and _may_end(raw, high) and not (_DATE.match(text) or _YEARS.fullmatch(text)):
            windows.append((at + 1, digits.decode()))
    return windows[::-1]


def _is_spoken_of(raw: bytes, begin: int) -> bool:
    """Whether the words before ``begin`` announce a phone number."""
    last = raw[max(0, begin - 6) : begin].rstrip(b" \t\r\n+(")[-1:]
    # After other numbers, the usual case in tables, this check is unnecessary.
    if not (last.isalpha() or last in (b".", b":", b"#") or last > b"\x7f"):
        return False
    return SPOKEN_BEFORE.search(raw[max(0, begin - 64) : begin].decode("utf-8", "ignore")) is not None


def _is_spoken_after(raw: bytes, end: int) -> bool:
    return SPOKEN_AFTER.match(raw[end : end + 16].decode("utf-8", "ignore")) is not None


def _is_counted(raw: bytes, end: int) -> bool:
    return COUNTED_AFTER.match(raw[end : end + 24].decode("utf-8", "ignore")) is not None


def _may_end(raw: bytes, at: int) -> bool:
    following = raw[at : at + 1]
    if following in (b"%", b"/") or (following in (b".", b",") and raw[at + 1 : at + 2].isdigit()):
        return False
    return ends_word(raw, at) or _EXTENSION.match(raw, at) is not None


def _is_grouped(text: bytes, sizes: tuple[int, ...], region: str) -> bool:
    """Whether ``text`` with groups of ``sizes`` digits looks like a phone number, not like a sum, score or code.

    In North America that means 3-3-4, not with spaces alone. Elsewhere customs vary: no single digits but the first,
    one kind of separator besides brackets, and a last group of at least three digits unless all groups after the first
    are pairs.
    """
    if country_code(region) == 1:
        return sizes in _NORTH_AMERICA and (len(sizes) == 1 or not set(text).isdisjoint(b".-("))
    separators = set(text) & set(b".-/")
    tails = sizes[1:]
    return (
        len(tails) > 0
        and len(separators) <= 1
        and min(tails) >= 2
        and (tails[-1] >= 3 or all(size == 2 for size in tails))
    )


def _is_written(text: bytes, digits: str, sizes: tuple[int, ...], region: str) -> bool:
    """Whether ``region`` writes its number ``digits`` in groups of ``sizes``; North America not with spaces alone."""
    return sizes in written_sizes(digits, region) and (country_code(region) != 1 or _is_grouped(text, sizes, region))


@lru_cache
def country_code(region: str) -> int:
    """The country code of ``region``, such as 1 for US; 0 for a region that libphonenumber does not know."""
    import phonenumbers

    return int(phonenumbers.country_code_for_region(region))


@lru_cache
def needs_trunk(region: str) -> bool:
    """Whether numbers in ``region`` are written with a prefix such as 0, which sets them apart from other numbers."""
    import phonenumbers

    metadata = phonenumbers.PhoneMetadata.metadata_for_region(region)
    prefix = metadata.national_prefix if metadata else None
    return prefix not in (None, "1") and region not in _WRITTEN_WITHOUT_TRUNK


@lru_cache(maxsize=65536)
def written_sizes(digits: str, region: str) -> frozenset[tuple[int, ...]]:
    """Sizes of the groups in which ``region`` writes its number ``digits``; none for a number that is not valid."""
    import phonenumbers

    if not is_valid(digits, region):
        return frozenset()
    number = phonenumbers.parse(digits, region)
    written = [phonenumbers.format_number(number, style) for style in (2, 1)]
    # Without the country code, which the international style begins with.
    groups = [re.findall(r"\d+", written[0]), re.findall(r"\d+", written[1])[1:]]
    return frozenset(tuple(map(len, each)) for each in groups)


@lru_cache
def _shortest(region: str) -> int:
    """Number of digits of ``region``'s shortest number that can be dialled from everywhere in the region."""
    import phonenumbers

    metadata = phonenumbers.PhoneMetadata.metadata_for_region(region)
    description = metadata.general_desc if metadata else None
    return min(description.possible_length) if description else _MIN_DIGITS


@lru_cache(maxsize=65536)
def is_valid(number: str, region: str) -> bool:
    """Whether libphonenumber considers ``number`` (digits, + before a country code) valid, dialled in ``region``."""
    import phonenumbers

    try:
        parsed = phonenumbers.parse(number, region)
    except phonenumbers.NumberParseException:
        return False
    return phonenumbers.is_valid_number(parsed)
