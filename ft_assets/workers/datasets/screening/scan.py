"""One pass over the UTF-8 of an array of texts that marks possible places of personal data or secrets.

The Python recognisers check only those places, so that screening a text without any costs less than a microsecond. The
pass must find every place and may report too many: each condition here is a weaker form of a recogniser's condition.
Every search from a place is bounded, so time is linear in the bytes.
"""

import numba
import numpy as np

from ft_assets.workers.datasets.screening import tables

_MIN_DIGITS = 7
# A secret with its prefix, and one that is recognised by its form only.
_MIN_SECRET = 8
_MIN_LONG = 24
_ION = 0x696F6E


@numba.njit(cache=True, nogil=True)
def scan(bits, beginnings, name_ends, iban_length, data, offsets, places):  # type: ignore[no-untyped-def]
    """Fill ``places``; returns their number, which may exceed the available room.

    Args:
        bits: uint16 [256], what each byte may be (``tables.BITS``). An argument like the next three, because a kernel
            compiles in values from other modules, and numba's cache does not notice when they change.
        beginnings: bool [65536], by hash of three bytes: whether a form of secrets begins so.
        name_ends: int64 [n], the last three letters of names of secrets, the first in the highest byte.
        iban_length: uint8 [26, 26], by the letters of the country; 0 if it has no IBANs.
        data: uint8, UTF-8 of all texts.
        offsets: int32 [n + 1], where texts begin and end in ``data``.
        places: int32 [4, capacity], to be filled with text, kind, start and end (bytes from the text's start).
    """
    longest = 0
    for text in range(len(offsets) - 1):
        longest = max(longest, offsets[text + 1] - offsets[text])
    marks = np.zeros((longest + 15) // 8 * 8, np.uint8)
    eights = marks.view(np.uint64)
    found = 0
    for text in range(len(offsets) - 1):
        first, last = np.int64(offsets[text]), np.int64(offsets[text + 1])
        _mark(data[first:last], marks)
        run_end = word_end = first
        for eight in range((last - first + 7) // 8):
            if eights[eight] == 0:
                continue
            for i in range(first + 8 * eight, min(first + 8 * eight + 8, last)):
                if marks[i - first] == 0:
                    continue
                byte = data[i]
                place, start, end = -1, i, i
                if i >= word_end and byte != 58 and byte != 61 and byte != 64:
                    found, word_end = _put_word(bits, beginnings, data, first, i, last, places, found, text)
                if 48 <= byte <= 57:
                    if i < run_end:
                        continue
                    if i > first and bits[data[i - 1]] & tables.IN_TOKEN:
                        start = _iban_start(iban_length, data, first, i, last)
                        end = _iban_end(bits, iban_length, data, start, last)
                        found = _put(places, found, text, tables.IBAN, first, start, end)
                    run_end, digits, dots = _walk_number(bits, data, i, last)
                    if digits >= _MIN_DIGITS or dots >= 3:
                        place, start, end = tables.NUMBER, i, run_end
                elif byte == 64:
                    start, end = _walk_email(bits, data, first, i, last)
                    place = tables.EMAIL if end > 0 else -1
                elif byte == 58 or byte == 61:
                    if byte == 58:
                        start, end = _walk_ipv6(bits, data, first, i, last)
                        if end > 0:
                            place = tables.IPV6
                        elif i + 3 < last and data[i + 1] == 47 and data[i + 2] == 47:
                            start, end = i, _walk_user(bits, data, i + 3, last)
                            place = tables.URL if end > 0 else -1
                    if place < 0 and _names_secret(name_ends, data, first, i):
                        place, start, end = tables.ASSIGNMENT, i, i + 1
                elif byte == 45 and _begins_pem(data, i, last):
                    place = tables.PEM
                if place >= 0:
                    found = _put(places, found, text, place, first, start, end)
    return found


@numba.njit(cache=True, nogil=True)
def _mark(text, marks):  # type: ignore[no-untyped-def]
    """1 in ``marks`` for each byte of ``text`` that may be part of a place; compiled to a few vector compares.

    These are digits, ``:``, ``=``, ``@``, ``-``, ``_``, and the second letter of AKIA and ASIA.
    """
    for i in range(len(text)):
        byte = text[i]
        marks[i] = (
            (48 <= byte <= 58) | (byte == 61) | (byte == 64) | (byte == 45) | (byte == 95) | (byte == 75) | (byte == 83)
        )


@numba.njit(cache=True, nogil=True)
def _put(places, found, text, kind, first, start, end):  # type: ignore[no-untyped-def]
    """Write a place if there is one (``end`` at or after ``start`` >= 0) and room; returns the number of places."""
    if start < 0 or end < start:
        return found
    if found < places.shape[1]:
        places[0, found] = text
        places[1, found] = kind
        places[2, found] = start - first
        places[3, found] = end - first
    return found + 1


@numba.njit(cache=True, nogil=True)
def _put_word(bits, beginnings, data, first, i, last, places, found, text):  # type: ignore[no-untyped-def]
    """Write the places of secrets in the run of token characters around ``i``; returns (places, end of the run).

    Of ``K`` and ``S``, which are no rare letters, only those in AKIA and ASIA count.
    """
    byte = data[i]
    if (byte == 75 or byte == 83) and not (i + 2 < last and data[i + 1] == 73 and data[i + 2] == 65):
        return found, i
    start = end = i
    while start > first and bits[data[start - 1]] & tables.IN_TOKEN:
        start -= 1
    digits = 0
    while end < last and bits[data[end]] & tables.IN_TOKEN:
        digits += 48 <= data[end] <= 57
        end += 1
    for at in range(start, end - _MIN_SECRET):
        # After a backslash the first letters may belong to an escape such as \\n; the recogniser checks this precisely.
        if (
            at == start
            or not bits[data[at - 1]] & tables.WORD
            or (start > first and data[start - 1] == 92 and at - start <= 5)
        ):
            one, two, three = np.int64(data[at]), np.int64(data[at + 1]), np.int64(data[at + 2])
            if beginnings[(one << 10 ^ two << 5 ^ three) % tables.HASH_SIZE]:
                found = _put(places, found, text, tables.TOKEN, first, at, end)
    if end - start >= _MIN_LONG and digits:
        found = _put(places, found, text, tables.LONG, first, start, end)
    return found, end


@numba.njit(cache=True, nogil=True)
def _iban_start(iban_length, data, first, i, last):  # type: ignore[no-untyped-def]
    """``i`` - 2 if the two letters of an IBAN country are there and two digits follow; -1 otherwise."""
    if i - first < 2 or i + 1 >= last or not 48 <= data[i + 1] <= 57:
        return -1
    one, two = data[i - 2] & 0xDF, data[i - 1] & 0xDF
    if not (65 <= one <= 90 and 65 <= two <= 90) or iban_length[one - 65, two - 65] == 0:
        return -1
    return i - 2


@numba.njit(cache=True, nogil=True)
def _iban_end(bits, iban_length, data, i, last):  # type: ignore[no-untyped-def]
    """End of the country's number of letters and digits from ``i`` on, with single separators; -1 if too few."""
    if i < 0:
        return -1
    length = iban_length[(data[i] & 0xDF) - 65, (data[i + 1] & 0xDF) - 65]
    count = 0
    separated = True
    while i < last:
        if bits[data[i]] & tables.ALPHANUMERIC:
            count += 1
            separated = False
            if count == length:
                return i + 1
        elif (data[i] == 32 or data[i] == 45) and not separated:
            separated = True
        else:
            return -1
        i += 1
    return -1


@numba.njit(cache=True, nogil=True)
def _walk_number(bits, data, i, last):  # type: ignore[no-untyped-def]
    """(end of the last digit, digits, most dots in a row between digits)."""
    end = i
    digits = dots = best = gap = 0
    while i < last and gap <= 3:
        byte = data[i]
        if 48 <= byte <= 57:
            if gap == 1 and data[i - 1] == 46:
                dots += 1
                best = max(best, dots)
            elif gap:
                dots = 0
            digits += 1
            gap = 0
            end = i + 1
        elif bits[byte] & tables.SEPARATOR:
            gap += 1
        else:
            break
        i += 1
    return end, digits, best


@numba.njit(cache=True, nogil=True)
def _walk_email(bits, data, first, at, last):  # type: ignore[no-untyped-def]
    """(start, end) of what may be an address around the at sign; end 0 if there is none."""
    start = at
    while start > first and at - start < 72 and bits[data[start - 1]] & tables.LOCAL:
        start -= 1
    end = at + 1
    dotted = 0
    while end < last and end - at < 260 and bits[data[end]] & tables.DOMAIN:
        if data[end] == 46:
            dotted = end
        end += 1
    # The address may end a sentence.
    while end > at and (data[end - 1] == 46 or data[end - 1] == 45):
        end -= 1
    if start == at or dotted == 0 or end - at < 5:
        return at, 0
    return start, end


@numba.njit(cache=True, nogil=True)
def _walk_ipv6(bits, data, first, colon, last):  # type: ignore[no-untyped-def]
    """(start, end) of the run that has its first colon here and two colons in a row, or seven; end 0 otherwise."""
    start = colon
    while start > first and colon - start < 5 and bits[data[start - 1]] & tables.HEXADECIMAL:
        start -= 1
    if start > first and data[start - 1] == 58:
        return colon, 0
    end = colon
    colons = 0
    double = False
    while (
        end < last and end - colon < 46 and (bits[data[end]] & tables.HEXADECIMAL or data[end] == 58 or data[end] == 46)
    ):
        if data[end] == 58:
            colons += 1
            double = double or (end > colon and data[end - 1] == 58)
        end += 1
    while end > colon and data[end - 1] == 46:
        end -= 1
    if colons < 2 or not (double or colons == 7) or (end < last and bits[data[end]] & tables.WORD):
        return colon, 0
    # Part of a name such as std::vector, unless the letter before belongs to an escape such as \\n.
    if start > first and bits[data[start - 1]] & tables.WORD and not (start > first + 1 and data[start - 2] == 92):
        return colon, 0
    return start, end


@numba.njit(cache=True, nogil=True)
def _walk_user(bits, data, i, last):  # type: ignore[no-untyped-def]
    """End of ``user:password`` before an at sign; 0 if there is none."""
    start = i
    colon = False
    while i < last and i - start < 256:
        byte = data[i]
        if byte == 64:
            return i if colon else 0
        if bits[byte] & tables.ENDS_USER:
            return 0
        colon = colon or byte == 58
        i += 1
    return 0


@numba.njit(cache=True, nogil=True)
def _names_secret(name_ends, data, first, i):  # type: ignore[no-untyped-def]
    """Whether the word before ``i`` (spaces, quotes and backslashes between) ends like the name of a secret.

    Many words end in "ion"; of these, only Authorization counts, by its z.
    """
    steps = 0
    while i > first and steps < 6 and (data[i - 1] == 32 or data[i - 1] in (34, 39, 92, 96, 93)):
        i -= 1
        steps += 1
    if i - first < 3:
        return False
    tail = (np.int64(data[i - 3] | 32) << 16) | (np.int64(data[i - 2] | 32) << 8) | np.int64(data[i - 1] | 32)
    if tail == _ION:
        return i - first >= 6 and data[i - 6] | 32 == 122
    return (tail == name_ends).any()


@numba.njit(cache=True, nogil=True)
def _begins_pem(data, i, last):  # type: ignore[no-untyped-def]
    """Whether ``-----BEGIN`` starts at ``i``."""
    if last - i < 10 or data[i + 5] != 66 or data[i + 6] != 69 or data[i + 7] != 71:
        return False
    return data[i + 1] == 45 and data[i + 2] == 45 and data[i + 3] == 45 and data[i + 4] == 45
