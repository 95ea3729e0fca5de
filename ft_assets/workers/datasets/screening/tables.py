"""Lookup tables for the scan: classes of bytes, beginnings of secrets, lengths of IBANs."""

import re

import numpy as np
import numpy.typing as npt

from ft_assets.workers.datasets.screening.rules import FORMS, KEYWORD_LENGTH

NUMBER, IBAN, EMAIL, IPV6, TOKEN, ASSIGNMENT, URL, PEM, LONG, MASKED, ID, TEXT = range(12)
"""Kinds of places. NUMBER: the run of digits with separators. IBAN: from the country's letters on. EMAIL: the run
around the at sign. IPV6: the run of hexadecimal digits and colons. TOKEN: from the beginning of a form of secrets to
the end of the run. ASSIGNMENT: the ``=`` or ``:`` after a name that ends like the name of a secret. URL: the ``://``
before text with an at sign. PEM: the five hyphens before BEGIN. LONG: a run of token characters long enough for a
secret. MASKED: a whole text with an e-mail address in words, perhaps. ID: a whole text with a national number, perhaps.
TEXT: a whole text, for a language model. These numbers never change: numba's cache would keep the old ones."""

# The possible last three letters before = or : if a secret may follow.
_NAME_ENDS = ("ord", "swd", "pwd", "ass", "ase", "ret", "ken", "key")
HASH_SIZE = 1 << 16

IBAN_LENGTHS = {
    pair[:2]: int(pair[3:])
    for pair in re.findall(
        r"\w+:\d+",
        "AD:24 AE:23 AL:28 AT:20 AZ:28 BA:20 BE:16 BG:22 BH:22 BI:27 BR:29 BY:28 CH:21 CR:22 CY:28 CZ:24 DE:22 DJ:27 "
        "DK:18 DO:28 EE:20 EG:29 ES:24 FI:18 FK:18 FO:18 FR:27 GB:22 GE:22 GI:23 GL:18 GR:27 GT:28 HN:28 HR:21 HU:28 "
        "IE:22 IL:23 IQ:23 IS:26 IT:27 JO:30 KW:30 KZ:20 LB:28 LC:32 LI:21 LT:20 LU:20 LV:21 LY:25 MC:27 MD:24 ME:22 "
        "MK:19 MN:20 MR:27 MT:31 MU:30 NI:28 NL:18 NO:15 OM:23 PK:24 PL:28 PS:29 PT:25 QA:29 RO:24 RS:22 RU:33 SA:24 "
        "SC:31 SD:18 SE:24 SI:19 SK:24 SM:27 SO:23 ST:25 SV:28 TL:23 TN:24 TR:26 UA:29 VA:22 VG:24 XK:20 YE:30",
    )
}
"""Length by country (SWIFT's IBAN registry, release 99)."""

HEXADECIMAL, ALPHANUMERIC, WORD, LOCAL, DOMAIN, SEPARATOR, ENDS_USER, IN_TOKEN = (1 << n for n in range(8))
"""What a byte may be: a hexadecimal digit; letter or digit; that or an underscore; part of an e-mail address before and
after the at sign; between the digits of a number; excluded before the at sign of a URL; part of a token. These numbers
never change either."""

_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123))
_DIGITS = b"0123456789"
# In the UTF-8 of letters of all scripts.
_OTHER_LETTERS = bytes(range(0x80, 0xC0)) + bytes(range(0xC3, 0xF0))


def _make_bits() -> npt.NDArray[np.uint16]:
    bits = np.zeros(256, np.uint16)
    for bit, members in (
        (HEXADECIMAL, _DIGITS + b"abcdefABCDEF"),
        (ALPHANUMERIC, _LETTERS + _DIGITS),
        (WORD, _LETTERS + _DIGITS + b"_"),
        (LOCAL, _LETTERS + _DIGITS + b"._%+'-" + _OTHER_LETTERS),
        (DOMAIN, _LETTERS + _DIGITS + b".-" + _OTHER_LETTERS),
        (SEPARATOR, b" \t-.()/+"),
        (ENDS_USER, b" \t\n\r\"'`<>{}[]|\\/"),
        (IN_TOKEN, _LETTERS + _DIGITS + b"_-.+/="),
    ):
        bits[list(members)] |= bit
    return bits


def _make_beginnings() -> npt.NDArray[np.bool_]:
    """True at the hash of three bytes (as in ``scan``) that a form of secrets begins with."""
    beginnings = np.zeros(HASH_SIZE, np.bool_)
    for form in FORMS:
        for one, two, three in (keyword[:KEYWORD_LENGTH] for keyword in form.keywords):
            beginnings[(one << 10 ^ two << 5 ^ three) % HASH_SIZE] = True
    return beginnings


def _make_iban_length() -> npt.NDArray[np.uint8]:
    lengths = np.zeros((26, 26), np.uint8)
    for country, length in IBAN_LENGTHS.items():
        lengths[ord(country[0]) - 65, ord(country[1]) - 65] = length
    return lengths


BITS = _make_bits()
BEGINNINGS = _make_beginnings()
NAME_ENDS = np.array([int.from_bytes(end.encode(), "big") for end in _NAME_ENDS], np.int64)
IBAN_LENGTH = _make_iban_length()
