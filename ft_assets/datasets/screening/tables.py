"""What bytes mean to the scan: tables by byte, the prefixes of tokens, the lengths of IBANs."""

import re

import numpy as np
import numpy.typing as npt

NUMBER, IBAN, EMAIL, IPV6, TOKEN, ASSIGNMENT, URL, PEM = range(8)
"""Kinds of places. NUMBER: digits with separators, the run. IBAN: the country's letters on. EMAIL: the run around the
at sign. IPV6: the run of hexadecimal digits and colons. TOKEN: the prefix of a known kind of token. ASSIGNMENT: the
``=`` or ``:`` after a name that ends as names of secrets do. URL: the ``://`` before something with an at sign. PEM:
the five hyphens before BEGIN."""

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


def _bytes_table(groups: dict[int, bytes]) -> npt.NDArray[np.uint8]:
    table = np.zeros(256, np.uint8)
    for value, members in groups.items():
        table[list(members)] = value
    return table


_LETTERS = bytes(range(65, 91)) + bytes(range(97, 123))
_DIGITS = b"0123456789"
# The UTF-8 of letters of Latin, Greek and Cyrillic script.
_OTHER_LETTERS = bytes(range(0x80, 0xC0)) + bytes(range(0xC3, 0xD4))

HEXADECIMAL, LETTER, UNDERSCORE = 1, 2, 3
WORD = _bytes_table({LETTER: _LETTERS, HEXADECIMAL: _DIGITS + b"abcdefABCDEF", UNDERSCORE: b"_"})
LOCAL = _bytes_table({1: _LETTERS + _DIGITS + b"._%+'-" + _OTHER_LETTERS})
DOMAIN = _bytes_table({1: _LETTERS + _DIGITS + b".-" + _OTHER_LETTERS})
SEPARATOR = _bytes_table({1: b" \t-.()/+"})
ENDS_USER = _bytes_table({1: b" \t\n\r\"'`<>{}[]|\\/"})
IN_TOKEN = _bytes_table({1: _LETTERS + _DIGITS + b"_-.+/="})

PREFIXES = np.zeros((len(TOKEN_PREFIXES), 12), np.uint8)
for _row, _prefix in enumerate(TOKEN_PREFIXES):
    PREFIXES[_row, : len(_prefix)] = list(_prefix.encode())
PREFIX_START = _bytes_table({1: bytes({prefix.encode()[0] for prefix in TOKEN_PREFIXES})})
NAME_ENDS = np.array([int.from_bytes(end.encode(), "big") for end in _NAME_ENDS], np.int64)
IBAN_LENGTH = np.zeros((26, 26), np.uint8)
for _country, _length in IBAN_LENGTHS.items():
    IBAN_LENGTH[ord(_country[0]) - 65, ord(_country[1]) - 65] = _length
