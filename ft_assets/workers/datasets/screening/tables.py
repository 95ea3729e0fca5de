"""Lookup tables for the scan: classes of bytes, prefixes of tokens, lengths of IBANs."""

import re

import numpy as np
import numpy.typing as npt

NUMBER, IBAN, EMAIL, IPV6, TOKEN, ASSIGNMENT, URL, PEM = range(8)
"""Kinds of places. NUMBER: the run of digits with separators. IBAN: from the country's letters on. EMAIL: the run
around the at sign. IPV6: the run of hexadecimal digits and colons. TOKEN: the prefix of a known kind of token.
ASSIGNMENT: the ``=`` or ``:`` after a name that ends like the name of a secret. URL: the ``://`` before text with an at
sign. PEM: the five hyphens before BEGIN. These numbers never change: numba's cache would keep the old ones."""

TOKEN_PREFIXES = (
    *("AKIA", "ASIA", "ABIA", "ACCA"),
    *("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
    *("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-"),
    *("xoxa-", "xoxb-", "xoxe-", "xoxe.", "xoxo-", "xoxp-", "xoxr-", "xoxs-", "xapp-"),
    *("AIza", "GOCSPX-", "ya29."),
    *("sk_live_", "sk_test_", "rk_live_", "rk_test_", "whsec_"),
    *("sk-", "hf_", "npm_", "pypi-", "SG.", "shpat_", "dop_v1_", "eyJ"),
)
# The possible last three letters before = or : if a secret may follow.
_NAME_ENDS = ("ord", "swd", "pwd", "ass", "ase", "ret", "ken", "key")

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

HEXADECIMAL, ALPHANUMERIC, WORD, LOCAL, DOMAIN, SEPARATOR, ENDS_USER, IN_TOKEN, STARTS_PREFIX = (
    1 << n for n in range(9)
)
"""What a byte may be: a hexadecimal digit; letter or digit; that or an underscore; part of an e-mail address before and
after the at sign; between the digits of a number; excluded before the at sign of a URL; part of a token; the first byte
of a prefix. These numbers never change either."""

_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123))
_DIGITS = b"0123456789"
# In the UTF-8 of letters of Latin, Greek and Cyrillic script.
_OTHER_LETTERS = bytes(range(0x80, 0xC0)) + bytes(range(0xC3, 0xD4))


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
        (STARTS_PREFIX, bytes({prefix.encode()[0] for prefix in TOKEN_PREFIXES})),
    ):
        bits[list(members)] |= bit
    return bits


def _make_prefixes() -> npt.NDArray[np.uint8]:
    prefixes = np.zeros((len(TOKEN_PREFIXES), 12), np.uint8)
    for row, prefix in enumerate(TOKEN_PREFIXES):
        prefixes[row, : len(prefix)] = list(prefix.encode())
    return prefixes


def _make_iban_length() -> npt.NDArray[np.uint8]:
    lengths = np.zeros((26, 26), np.uint8)
    for country, length in IBAN_LENGTHS.items():
        lengths[ord(country[0]) - 65, ord(country[1]) - 65] = length
    return lengths


BITS = _make_bits()
PREFIXES = _make_prefixes()
NAME_ENDS = np.array([int.from_bytes(end.encode(), "big") for end in _NAME_ENDS], np.int64)
IBAN_LENGTH = _make_iban_length()
