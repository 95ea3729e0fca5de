"""Payment card numbers and international bank account numbers."""

import re
from collections.abc import Iterator

from ft_assets.workers.datasets.screening.boundaries import ends_word, starts_word
from ft_assets.workers.datasets.screening.figures import are_figures
from ft_assets.workers.datasets.screening.found import Span
from ft_assets.workers.datasets.screening.tables import IBAN_LENGTHS

_DIGITS = re.compile(rb"[0-9]+")
_MAX_CARD = 19
_SPOKEN = re.compile(
    rb"\b(?:cards?|cc|visa|master ?card|maestro|amex|american express|credit|debit)\b[^0-9]{0,24}$", re.IGNORECASE
)
# Groups as cards are printed and typed: a single group, or a first group of four.
_SHAPES = re.compile(r"\d+|4,4,4,4(,[1-3])?|4,6,[45]|4,4,4,1|4,4,5")

# First digits (from, to) and lengths, by issuer (ISO/IEC 7812; the ranges that the networks publish).
_ISSUERS: tuple[tuple[str, str, frozenset[int]], ...] = tuple(
    (low, high, frozenset(lengths))
    for low, high, lengths in (
        ("4", "4", (13, 16, 19)),  # Visa
        ("51", "55", (16,)),  # Mastercard
        ("2221", "2720", (16,)),
        ("34", "34", (15,)),  # American Express
        ("37", "37", (15,)),
        ("300", "305", (14, 16)),  # Diners Club
        ("3095", "3095", (14, 16)),
        ("36", "36", (14, 16, 19)),
        ("38", "39", (14, 16)),
        ("6011", "6011", (16, 17, 18, 19)),  # Discover
        ("644", "649", (16, 17, 18, 19)),
        ("65", "65", (16, 17, 18, 19)),
        ("62", "62", (16, 17, 18, 19)),  # UnionPay
        ("81", "81", (16, 17, 18, 19)),
        ("3528", "3589", (16, 17, 18, 19)),  # JCB
        ("2131", "2131", (15,)),
        ("1800", "1800", (15,)),
        ("2200", "2204", (16, 17, 18, 19)),  # Mir
        ("60", "60", (16,)),  # RuPay
        ("82", "82", (16,)),
        ("508", "508", (16,)),
        ("9792", "9792", (16,)),  # Troy
        ("5018", "5018", tuple(range(12, 20))),  # Maestro
        ("5020", "5020", tuple(range(12, 20))),
        ("5038", "5038", tuple(range(12, 20))),
        ("56", "58", tuple(range(12, 20))),
        ("6304", "6304", tuple(range(12, 20))),
        ("6390", "6390", tuple(range(12, 20))),
        ("67", "67", tuple(range(12, 20))),
    )
)


def find_cards(raw: bytes, start: int, end: int) -> Iterator[Span]:
    """Card numbers in the run of digits and separators ``raw[start:end]``.

    12 (Maestro) to 19 digits with an issuer's prefix and length and a correct check digit (Luhn, US patent 2,950,048),
    in one piece or in the groups that are printed on cards, with single spaces or hyphens. If the text right before
    mentions a card, the check digit suffices, as issuers' ranges change. Not part of a word or of a decimal number, nor
    after a plus sign: a tenth of all numbers have a correct check digit.
    """
    groups = [match.span() for match in _DIGITS.finditer(raw, start, end)]
    first = 0
    while first < len(groups):
        following = _card_from(raw, groups, first)
        if following > first:
            yield Span(groups[first][0], groups[following - 1][1], "card")
            first = following
        else:
            first += 1


def _card_from(raw: bytes, groups: list[tuple[int, int]], first: int) -> int:
    """The index after the last group of the card number that starts at group ``first``; ``first`` if there is none."""
    begin = groups[first][0]
    if not _may_begin(raw, begin):
        return first
    spoken = _SPOKEN.search(raw, max(0, begin - 48), begin) is not None
    separator = b""
    sizes = ""
    digits = b""
    best = first
    for at in range(first, min(first + 5, len(groups))):
        low, high = groups[at]
        if at > first:
            between = raw[groups[at - 1][1] : low]
            if between not in (b" ", b"-") or (separator and between != separator):
                break
            separator = between
        digits += raw[low:high]
        if len(digits) > _MAX_CARD:
            break
        sizes = f"{sizes},{high - low}" if sizes else str(high - low)
        if len(digits) >= 12 and _SHAPES.fullmatch(sizes) and _may_end(raw, high):
            number = digits.decode()
            if has_luhn(number) and (spoken or (has_issuer(number) and not _are_figures(raw, groups, first, at + 1))):
                best = at + 1
    return best


def _are_figures(raw: bytes, groups: list[tuple[int, int]], first: int, following: int) -> bool:
    """Whether the groups from ``first`` to before ``following`` are figures in a row, or part of a longer row of
    figures of four digits."""
    row = groups[max(0, first - 1) : first + 1], groups[following - 1 : following + 1]
    beside = [(sides, sides[place]) for sides, place in zip(row, (0, -1), strict=True) if len(sides) == 2]
    longer = following - first > 1 and any(
        high - low == 4 and raw[before[1] : after[0]] == b" " for (before, after), (low, high) in beside
    )
    return longer or are_figures(raw[groups[first][0] : groups[following - 1][1]])


def _may_begin(raw: bytes, at: int) -> bool:
    if not starts_word(raw, at):
        return False
    # Decimals, the rest of a longer series of groups, international phone numbers.
    return not (at >= 1 and (raw[at - 1] == 0x2B or (raw[at - 1] in b".,-" and raw[at - 2 : at - 1].isdigit())))


def _may_end(raw: bytes, at: int) -> bool:
    return ends_word(raw, at) and not (raw[at : at + 1] in (b".", b",", b"-") and raw[at + 1 : at + 2].isdigit())


def has_issuer(digits: str) -> bool:
    """Whether ``digits`` have an issuer's prefix and one of its lengths."""
    return any(len(digits) in lengths and low <= digits[: len(low)] <= high for low, high, lengths in _ISSUERS)


def has_luhn(digits: str) -> bool:
    """Whether the last digit is the check digit of the others."""
    doubled = (0, 2, 4, 6, 8, 1, 3, 5, 7, 9)
    total = sum(int(digit) for digit in digits[-1::-2]) + sum(doubled[int(digit)] for digit in digits[-2::-2])
    return total % 10 == 0


def find_ibans(raw: bytes, start: int, end: int) -> Iterator[Span]:
    """The IBAN ``raw[start:end]``, if it is one: the country's length, groups of four if any, mod 97 (ISO 13616)."""
    if not (starts_word(raw, start) and ends_word(raw, end)):
        return
    groups = re.split(rb"[ -]", raw[start:end])
    if len(groups) > 1 and not all(len(group) == 4 for group in groups[:-1]):
        return
    if is_iban(b"".join(groups).decode().upper()):
        yield Span(start, end, "iban")


def is_iban(text: str) -> bool:
    """Whether ``text`` (upper case, no separators) has its country's length and correct check digits."""
    if len(text) != IBAN_LENGTHS.get(text[:2]) or not text[2:4].isdigit():
        return False
    return int("".join(str(int(letter, 36)) for letter in text[4:] + text[:4])) % 97 == 1
