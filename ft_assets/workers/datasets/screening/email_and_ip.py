"""E-mail and IP addresses."""

import ipaddress
import re
from collections.abc import Iterator

from ft_assets.workers.datasets.screening.boundaries import ends_word, skip_escape, starts_word
from ft_assets.workers.datasets.screening.found import Span

# Latin, Greek and Cyrillic beyond ASCII, in UTF-8. Chinese and Japanese text may adjoin an address without a space, so
# letters of other scripts belong to an address only if its local part has no Latin, Greek or Cyrillic ones, or if its
# domain ends in one of their top-level domains (IANA's internationalised ones).
_LETTER = rb"(?:[A-Za-z0-9]|[\xc3-\xd3][\x80-\xbf])"
_LOCAL = re.compile(rb"(?:%s|[_+%%'-])(?:%s|[_+%%'-]|\.(?!\.))*$" % (_LETTER, _LETTER))
_DOMAIN = re.compile(
    rb"(?:%s(?:(?:%s|-){0,61}%s)?\.)+(?:xn--[A-Za-z0-9-]{2,59}|[A-Za-z]{2,24}|(?:[\xce-\xd3][\x80-\xbf]){2,20})"
    % (_LETTER, _LETTER, _LETTER)
)
# Without the blocks of punctuation (U+2000 on, U+3000 on) and of full-width forms.
_OTHER = rb"(?:[\xd4-\xdf][\x80-\xbf]|[\xe0\xe1\xe4-\xed][\x80-\xbf]{2}|\xe3[\x81-\xbf][\x80-\xbf])"
_OTHER_LOCAL = re.compile(rb"%s{1,20}(?:[0-9._-]{0,10}(?:%s|[0-9]){1,20})?$" % (_OTHER, _OTHER))
_OTHER_ENDS = (
    "中国 中國 公司 网络 網路 香港 台湾 台灣 新加坡 集团 商城 在线 网站 みんな コム 한국 닷컴 भारत कॉम বাংলা ভারত இந்தியா "
    "ไทย คอม امارات مصر السعودية المغرب الجزائر تونس عمان قطر الاردن ایران پاکستان كوم ישראל קום გე հայ"
)
_OTHER_DOMAIN = re.compile(
    rb"(?:(?:%s|%s|-){1,40}\.){1,3}?(?:%s)(?!-)" % (_OTHER, _LETTER, _OTHER_ENDS.replace(" ", "|").encode())
)
# A sentence directly after the address: name@host.com.Then
_GLUED = re.compile(rb"(.*\.(?:com|org|net|edu|gov|info|[a-z]{2}))\.[A-Z][a-z]+$")
# What follows the @ in file names (logo@2x.png), decorators and package versions.
_FILE_ENDINGS = frozenset(
    b"png jpg jpeg gif svg webp ico pdf css scss js ts jsx tsx mjs json html htm xml yaml yml py rb php java jar so "
    b"md txt csv log exe dll min target service".split()
)


def find_emails(raw: bytes, start: int, at: int, end: int) -> Iterator[Span]:
    """The address around the at sign ``raw[at]``; ``start`` and ``end`` limit how far it can extend.

    Local part of at most 64 bytes with ``. _ % + - '`` and letters of Latin, Greek and Cyrillic script; sub-domains;
    internationalised domains as text and as ``xn--``; local parts and domains of other scripts (RFC 6531). Not: quoted
    local parts, addresses of literal IPs, file names such as ``logo@2x.png``, and ``git@host:path``.
    """
    local = _LOCAL.search(raw, start, at) or _OTHER_LOCAL.search(raw, start, at)
    domain = _DOMAIN.match(raw, at + 1, end) or _OTHER_DOMAIN.match(raw, at + 1, end)
    if local is None or domain is None:
        return
    begin, stop = skip_escape(raw, local.start()), domain.end()
    while begin < at and raw[begin] in b"'.-%+":
        begin += 1
    if not 0 < at - begin <= 64 or not starts_word(raw, begin) or raw[at - 1] == 0x2E:
        return
    glued = _GLUED.match(raw[at + 1 : stop])
    if glued:
        stop = at + 1 + len(glued.group(1))
    if raw[at + 1 : stop].rsplit(b".", 1)[1].lower() in _FILE_ENDINGS:
        return
    if raw[begin:at] == b"git" and raw[stop : stop + 1] in (b":", b"/"):
        return
    yield Span(begin, stop, "email")


_WORD = rb"(?!(?:at|dot)\b)[A-Za-z0-9-]{1,63}"
_DOT = rb"(?:[ ]?[\[({<][ ]?(?:dot|\.)[ ]?[\])}>][ ]?| dot |_dot_)"
_MASKED = re.compile(
    rb"(?<![A-Za-z0-9._-])(?!(?:at|dot)\b)[A-Za-z0-9](?:[A-Za-z0-9_+-]|\.(?!\.)){0,63}(?:%s%s){0,2}"
    rb"(?:[ ]?[\[({<][ ]?(?:at|@)[ ]?[\])}>][ ]?|(?P<weak> at |_at_)|&#64;| @ )"
    rb"(?P<domain>(?:%s(?:%s|\.| \. )){1,4}(?!dot)(?:com|org|net|edu|gov|info|io|[a-z]{2,3}))(?![A-Za-z0-9])"
    % (_DOT, _WORD, _WORD, _DOT),
    re.IGNORECASE,
)
_MASKED_DOT = re.compile(rb"[\[({<_ ](?:dot|\.)[\])}>_ ]", re.IGNORECASE)


def find_masked_emails(raw: bytes) -> Iterator[Span]:
    """Addresses written to hide them from machines: "john [at] example [dot] com", "john at example dot com",
    ``john&#64;example.com``. If the word "at" has no brackets, a dot must be masked as well."""
    for match in _MASKED.finditer(raw):
        if match["weak"] is None or _MASKED_DOT.search(match["domain"]):
            yield Span(*match.span(), "email")


_OCTET = rb"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = re.compile(rb"(?<![0-9.])%s(?:\.%s){3}(?![0-9]|\.[0-9])" % (_OCTET, _OCTET))
_VERSION_BEFORE = re.compile(
    rb"(?:\b(?:versions?|ver|v|releases?|rel|build|rev|revision|firmware|driver|sections?|sec|chapter|article|clause|"
    rb"paragraph|figure|fig|table|step|oid)\b[.:#]?[ =]{0,2}|[A-Za-z]/|[A-Za-z]-|[=~<>!]=|\xc2\xa7 ?)$",
    re.IGNORECASE,
)
_ADDRESS_BEFORE = re.compile(rb"\b(?:ip|ipv4|address|host|server|ping|dns|gateway|router|ssh|https?://)", re.IGNORECASE)


def find_ipv4(raw: bytes, start: int, end: int) -> Iterator[Span]:
    """IPv4 addresses in the run ``raw[start:end]`` of digits and separators.

    Four numbers of at most 255 without leading zeros. Not: five or more numbers; versions and sections, recognised by
    the preceding text (``version 1.2.3.4``, ``Chrome/1.2.3.4``, ``==1.2.3.4``); addresses that identify nobody (0.x,
    127.x, masks, multicast); and four numbers below 64, as in headings and versions, unless they begin with 10 or the
    text mentions an address.
    """
    for match in _IPV4.finditer(raw, start, end):
        low, high = match.span()
        if not starts_word(raw, low) or not ends_word(raw, high):
            continue
        octets = [int(octet) for octet in match.group().split(b".")]
        if octets[0] in (0, 127) or octets[0] >= 224:
            continue
        before = raw[max(0, low - 40) : low]
        if _VERSION_BEFORE.search(before):
            continue
        if max(octets) < 64 and octets[0] != 10 and not _ADDRESS_BEFORE.search(before):
            continue
        yield Span(low, high, "ip")


def find_ipv6(raw: bytes, start: int, end: int) -> Iterator[Span]:
    """The IPv6 address ``raw[start:end]`` (RFC 4291, RFC 5952).

    Either all eight groups, or shortened and in the ranges that hosts have (2000::/3, fc00::/7, fe80::/10), as ``a::b``
    is a name in many programming languages.
    """
    while end > start and raw[end - 1] == 0x3A and raw[end - 2 : end] != b"::":
        end -= 1
    if not starts_word(raw, start) or not ends_word(raw, end):
        return
    text = raw[start:end]
    try:
        address = ipaddress.IPv6Address(text.decode())
    except ValueError:
        return
    first = int(address) >> 112
    hosts = 0x2000 <= first <= 0x3FFF or 0xFC00 <= first <= 0xFDFF or 0xFE80 <= first <= 0xFEBF
    if text.count(b":") == 7 and b"::" not in text:
        if first == 0 and int(address) < 1 << 32:
            return
    elif not hosts or not any(48 <= byte <= 57 for byte in text):
        return
    yield Span(start, end, "ip")
