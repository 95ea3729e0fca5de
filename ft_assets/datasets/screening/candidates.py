"""One pass over the UTF-8 of an array of texts that marks the few places where personal data or secrets can be.

Recognisers in Python look at those places alone, which is what makes screening cost a fraction of a microsecond for
a text without any. The pass must find every place and may name too many: whoever reads the code of a recogniser finds
its condition here as a weaker one. Every walk from a place is bounded, so time is linear in the bytes.
"""

import numba
import numpy as np
import numpy.typing as npt
import pyarrow as pa

NUMBER, IBAN, EMAIL, IPV6, TOKEN, ASSIGNMENT, URL, PEM = range(8)
"""Kinds of places. NUMBER: digits with separators, the run. IBAN: country and check digits on. EMAIL: the run around
the at sign. IPV6: the run of hexadecimal digits and colons. TOKEN: a run that holds the prefix of a known kind of
token, from the prefix on. ASSIGNMENT: the ``=`` or ``:`` after a name that ends as names of secrets do. URL: the
``://`` before something with an at sign. PEM: the five hyphens before BEGIN."""

_PLAIN, _SPACE, _DIGIT, _AT, _COLON, _EQUALS, _HYPHEN, _HIGH = range(8)
_MIN_DIGITS = 7
# Below this a token's form says too little; ordinary words are shorter.
_MIN_TOKEN = 20

TOKEN_PREFIXES = (
    *("AKIA", "ASIA", "ABIA", "ACCA"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    *("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-"),
    *("xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
    *("AIza", "GOCSPX-", "ya29."),
    *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
    *("sk-", "hf_", "npm_", "pypi-", "SG.", "shpat_", "dop_v1_", "eyJ"),
)
# What the last three letters before = or : are, where a secret may follow.
_NAME_ENDS = ("ord", "swd", "pwd", "ass", "ase", "ret", "ken", "key")

IBAN_LENGTHS = dict(
    pair.split(":")
    for pair in (
        "AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BI:27 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DJ:27 "
        "DK:18 DO:28 EE:20 EG:29 ES:24 FI:18 FK:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HN:28 HR:21 HU:28 "
        "IE:22 IL:23 IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20 LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22 "
        "MK:19 MN:20 MR:27 MT:31 MU:30 NI:28 NL:18 NO:15 OM:23 PK:24 PL:28 PS:29 PT:25 QA:29 RO:24 RS:22 RU:33 SA:24 "
        "SC:31 SD:18 SE:24 SI:19 SK:24 SM:27 SO:23 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20 YE:30"
    ).split()
)
"""Country to length, as text (SWIFT's IBAN registry, release 99)."""


def _bytes_table(groups: dict[int, bytes]) -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    for value, members in groups.items():
        table[list(members)] = value
    return table


_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123))
_DIGITS = b"0123456789"
_CLASSES = _bytes_table(
    {
        _SPACE: b" \t\n\r\x0b\x0c\"'`<>(){}[],;|\\*",
        _DIGIT: _DIGITS,
        _AT: b"@",
        _COLON: b":",
        _EQUALS: b"=",
        _HYPHEN: b"-",
        # First bytes of invisible characters, of other scripts' digits, and of characters that look like separators.
        _HIGH: b"\xc2\xd9\xdb\xe0\xe2\xef\xf0",
    }
)
# 1: hexadecimal digits, 2: other letters, 3: underscore.
_WORD = _bytes_table({2: _LETTERS, 1: _DIGITS + b"abcdefABCDEF", 3: b"_"})
_LOCAL = _bytes_table({1: _LETTERS + _DIGITS + b"._%+'-" + bytes(range(0xC3, 0xD4)) + bytes(range(0x80, 0xC0))})
_DOMAIN = _bytes_table({1: _LETTERS + _DIGITS + b".-" + bytes(range(0xC3, 0xD4)) + bytes(range(0x80, 0xC0))})
_SEPARATORS = _bytes_table({1: b" \t-.()/+"})
_PREFIXES = np.zeros((len(TOKEN_PREFIXES), 12), np.uint8)
for _row, _prefix in enumerate(TOKEN_PREFIXES):
    _PREFIXES[_row, : len(_prefix)] = list(_prefix.encode())
_PREFIX_STARTS = _bytes_table({1: bytes({prefix.encode()[0] for prefix in TOKEN_PREFIXES})})
_ENDS = np.array([int.from_bytes(end.encode(), "big") for end in _NAME_ENDS], np.int64)
_IBAN = np.zeros((26, 26), np.uint8)
for _country, _length in IBAN_LENGTHS.items():
    _IBAN[ord(_country[0]) - 65, ord(_country[1]) - 65] = int(_length)


class Candidates:
    """Places in order of their text: ``index``, ``kind``, and bytes ``start`` to ``end`` counted from the text's
    start. ``fold``: indices of texts in which characters must be replaced before they can be read (see ``folding``);
    they have no places."""

    def __init__(self, places: npt.NDArray[np.int32], fold: npt.NDArray[np.int32]) -> None:
        self.index, self.kind, self.start, self.end = places
        self.fold = fold


def find_candidates(texts: pa.StringArray) -> Candidates:
    """The places in ``texts`` (no nulls) worth a recogniser's look."""
    offsets, data = text_buffers(texts)
    capacity = 1024 + len(texts)
    while True:
        places = np.empty((4, capacity), np.int32)
        fold = np.zeros(len(texts), np.bool_)
        found = _scan(data, offsets, places, fold)
        if found <= capacity:
            break
        capacity = found
    places = places[:, :found]
    folded = np.flatnonzero(fold).astype(np.int32)
    if len(folded):
        places = places[:, ~fold[places[0]]]
    return Candidates(places, folded)


def text_buffers(texts: pa.StringArray) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.uint8]]:
    """Offsets (n + 1) and bytes of ``texts``, without a copy."""
    _, offsets, data = texts.buffers()
    start = texts.offset
    if len(texts) == 0 or offsets is None:
        return np.zeros(1, np.int32), np.zeros(0, np.uint8)
    every = np.frombuffer(offsets, np.int32)[start : start + len(texts) + 1]
    return every, np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)


@numba.njit(cache=True, nogil=True)
def _scan(data, offsets, places, fold):  # type: ignore[no-untyped-def]
    """Fill ``places`` (4 × capacity) and ``fold``; the number of places, which may be more than there is room for."""
    capacity = places.shape[1]
    found = 0
    for text in range(len(offsets) - 1):
        first, last = offsets[text], offsets[text + 1]
        word = first
        run_end = first
        other_digits = 0
        for i in range(first, last + 1):
            kind = _SPACE if i == last else _CLASSES[data[i]]
            if kind == _PLAIN:
                continue
            place, start, end = -1, i, i
            if kind == _SPACE:
                if i - word >= _MIN_TOKEN:
                    start = _prefix_in(data, word, i)
                    if start >= 0:
                        place, end = TOKEN, i
                word = i + 1
            elif kind == _DIGIT:
                if i < run_end:
                    continue
                length = _iban_length(data, first, i)
                if length:
                    end = _walk_iban(data, i - 2, last, length)
                    if end > 0:
                        if found < capacity:
                            places[0, found], places[1, found] = text, IBAN
                            places[2, found], places[3, found] = i - 2 - first, end - first
                        found += 1
                run_end, digits, dots, special = _walk_number(data, i, last)
                if digits >= _MIN_DIGITS or dots >= 3:
                    if special:
                        fold[text] = digits >= 10 or fold[text]
                    else:
                        place, end = NUMBER, run_end
            elif kind == _AT:
                start, end = _walk_email(data, first, i, last)
                if end > 0:
                    place = EMAIL
            elif kind == _COLON or kind == _EQUALS:
                if kind == _COLON:
                    left, right = _walk_ipv6(data, first, i, last)
                    if right > 0:
                        place, start, end = IPV6, left, right
                    elif i + 3 < last and data[i + 1] == 47 and data[i + 2] == 47:
                        end = _walk_user(data, i + 3, last)
                        if end > 0:
                            place = URL
                if place < 0 and _names_secret(data, first, i):
                    place, end = ASSIGNMENT, i + 1
            elif kind == _HYPHEN:
                if _begins_pem(data, i, last):
                    place, end = PEM, i + 10
            elif not fold[text]:
                what = _look_at(data, first, i, last)
                if what == 1:
                    other_digits += 1
                    fold[text] = other_digits >= _MIN_DIGITS
                elif what == 2:
                    fold[text] = True
            if place >= 0:
                if found < capacity:
                    places[0, found], places[1, found] = text, place
                    places[2, found], places[3, found] = start - first, end - first
                found += 1
    return found


@numba.njit(cache=True, nogil=True)
def _prefix_in(data, first, last):  # type: ignore[no-untyped-def]
    """Where the first known prefix starts that has enough behind it and no letter or digit before; -1 for none."""
    for i in range(first, last - _MIN_TOKEN + 1):
        # Behind a backslash the first letter may belong to an escape such as \n; recognisers look closer.
        if not _PREFIX_STARTS[data[i]]:
            continue
        for row in range(_PREFIXES.shape[0]):
            column = 0
            while column < 12 and _PREFIXES[row, column] and data[i + column] == _PREFIXES[row, column]:
                column += 1
            if column == 12 or not _PREFIXES[row, column]:
                if i == first or _WORD[data[i - 1]] == 0 or i - first <= 5:
                    return i
                break
    return -1


@numba.njit(cache=True, nogil=True)
def _iban_length(data, first, i):  # type: ignore[no-untyped-def]
    """Length of the IBANs of the country whose two letters stand before ``i``; 0 for none."""
    if i - first < 2 or _WORD[data[i - 1]] not in (1, 2) or _WORD[data[i - 2]] not in (1, 2):
        return 0
    one, two = data[i - 2] & 0xDF, data[i - 1] & 0xDF
    if one < 65 or two < 65:
        return 0
    return _IBAN[one - 65, two - 65]


@numba.njit(cache=True, nogil=True)
def _walk_iban(data, i, last, length):  # type: ignore[no-untyped-def]
    """End of ``length`` letters and digits from ``i`` on, single spaces or hyphens between; 0 where there are fewer."""
    count = 0
    separated = True
    while i < last:
        if _WORD[data[i]] in (1, 2):
            count += 1
            separated = False
            if count == length:
                return i + 1
        elif (data[i] == 32 or data[i] == 45) and not separated:
            separated = True
        else:
            return 0
        i += 1
    return 0


@numba.njit(cache=True, nogil=True)
def _walk_number(data, i, last):  # type: ignore[no-untyped-def]
    """(end of the last digit, digits, dots between digits in a row, whether some separator is not ASCII)."""
    end = i
    digits = dots = best = gap = 0
    special = False
    pending = False
    while i < last and gap <= 3:
        byte = data[i]
        if 48 <= byte <= 57:
            if gap == 1 and data[i - 1] == 46:
                dots += 1
                best = max(best, dots)
            elif gap:
                dots = 0
            special = special or pending
            digits += 1
            gap = 0
            i += 1
            end = i
            continue
        if _SEPARATORS[byte]:
            i += 1
        else:
            width = _separator_width(data, i, last)
            if width == 0:
                break
            pending = True
            i += width
        gap += 1
    return end, digits, best, special


@numba.njit(cache=True, nogil=True)
def _separator_width(data, i, last):  # type: ignore[no-untyped-def]
    """Bytes of the non-ASCII space, hyphen, dash or invisible character at ``i``; 0 for anything else."""
    if i + 1 < last and data[i] == 0xC2 and (data[i + 1] == 0xA0 or data[i + 1] == 0xAD):
        return 2
    if i + 2 < last:
        one, two, three = data[i], data[i + 1], data[i + 2]
        if one == 0xE2 and (
            (two == 0x80 and (0x80 <= three <= 0x95 or three == 0xAF))
            or (two == 0x81 and 0xA0 <= three <= 0xA4)
            or (two == 0x88 and three == 0x92)
        ):
            return 3
        if one == 0xEF and ((two == 0xBB and three == 0xBF) or (two == 0xBC and (three == 0x8D or three == 0x8E))):
            return 3
    return 0


@numba.njit(cache=True, nogil=True)
def _walk_email(data, first, at, last):  # type: ignore[no-untyped-def]
    """(start, end) of what may be an address around the at sign; end 0 where there is none."""
    start = at
    while start > first and at - start < 72 and _LOCAL[data[start - 1]]:
        start -= 1
    end = at + 1
    dotted = 0
    while end < last and end - at < 260 and _DOMAIN[data[end]]:
        if data[end] == 46:
            dotted = end
        end += 1
    # A sentence may end behind the address.
    while end > at and (data[end - 1] == 46 or data[end - 1] == 45):
        end -= 1
    if start == at or dotted == 0 or end - at < 5:
        return at, 0
    return start, end


@numba.njit(cache=True, nogil=True)
def _walk_ipv6(data, first, colon, last):  # type: ignore[no-untyped-def]
    """(start, end) of the run whose first colon this is, where it has two in a row, or seven; end 0 otherwise."""
    start = colon
    while start > first and colon - start < 5 and _WORD[data[start - 1]] == 1:
        start -= 1
    if start > first and data[start - 1] == 58:
        return colon, 0
    end = colon
    colons = 0
    double = False
    while end < last and end - colon < 46 and (_WORD[data[end]] == 1 or data[end] == 58 or data[end] == 46):
        if data[end] == 58:
            colons += 1
            double = double or data[end - 1] == 58 and end > colon
        end += 1
    while end > colon and data[end - 1] == 46:
        end -= 1
    if colons < 2 or not (double or colons == 7 or colons == 6):
        return colon, 0
    return start, end


@numba.njit(cache=True, nogil=True)
def _walk_user(data, i, last):  # type: ignore[no-untyped-def]
    """End of ``user:password`` before an at sign; 0 where there is none."""
    start = i
    colon = False
    while i < last and i - start < 256:
        byte = data[i]
        if byte == 64:
            return i if colon else 0
        if byte == 47 or _CLASSES[byte] == _SPACE and byte not in (40, 41, 42, 44, 59):
            return 0
        colon = colon or byte == 58
        i += 1
    return 0


@numba.njit(cache=True, nogil=True)
def _names_secret(data, first, i):  # type: ignore[no-untyped-def]
    """Whether the word before ``i`` (spaces, quotes and backslashes between) ends as names of secrets do."""
    steps = 0
    while i > first and steps < 6 and (data[i - 1] == 32 or data[i - 1] in (34, 39, 92, 96, 93)):
        i -= 1
        steps += 1
    if i - first < 3:
        return False
    tail = (np.int64(data[i - 3] | 32) << 16) | (np.int64(data[i - 2] | 32) << 8) | np.int64(data[i - 1] | 32)
    for end in _ENDS:
        if end == tail:
            return True
    return False


@numba.njit(cache=True, nogil=True)
def _begins_pem(data, i, last):  # type: ignore[no-untyped-def]
    """Whether ``-----BEGIN`` starts at ``i``."""
    return (
        last - i >= 10
        and data[i + 5] == 66
        and data[i + 6] == 69
        and data[i + 7] == 71
        and data[i + 1] == 45
        and data[i + 2] == 45
        and data[i + 3] == 45
        and data[i + 4] == 45
    )


@numba.njit(cache=True, nogil=True)
def _look_at(data, first, i, last):  # type: ignore[no-untyped-def]
    """Of the non-ASCII character at ``i``: 1 a digit of another script, 2 something that hides what stands around it."""
    if i + 1 >= last:
        return 0
    one, two = data[i], data[i + 1]
    three = data[i + 2] if i + 2 < last else 0
    if one == 0xD9 or one == 0xDB:
        low = 0xA0 if one == 0xD9 else 0xB0
        return 1 if low <= two <= low + 9 else 0
    if one == 0xE0:
        # Devanagari, Bengali, Thai.
        return 1 if (two in (0xA5, 0xA7) and 0xA6 <= three <= 0xAF) or (two == 0xB9 and 0x90 <= three <= 0x99) else 0
    if one == 0xF0:
        # Mathematical digits, such as bold ones.
        return 1 if two == 0x9D and three == 0x9F else 0
    if one == 0xEF and two == 0xBC:
        if 0x90 <= three <= 0x99:
            return 1
        return 2 if three == 0xA0 else 0
    width = 0
    if one == 0xC2 and two == 0xAD:
        width = 2
    elif (one == 0xE2 and two == 0x80 and 0x8B <= three <= 0x8F) or (
        one == 0xE2 and two == 0x81 and 0xA0 <= three <= 0xA4
    ):
        width = 3
    elif one == 0xEF and two == 0xBB and three == 0xBF:
        width = 3
    if width and i > first and i + width < last:
        before, after = data[i - 1], data[i + width]
        if (_LOCAL[before] or before == 64) and (_LOCAL[after] or after == 64) and before < 128 and after < 128:
            return 2
    return 0
