"""One text: how it is cleaned before anything else sees it, and whether it is blank."""

import re
import unicodedata
from functools import cache
from typing import Any

from ft_assets.workers.datasets.forms.reasons import Reason, RowProblem

# Vertical tab, form feed and NEL end lines (Unicode, section 5.8): removing them would run words together.
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85]")
_CONTROLS = re.compile("[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f]")
# UTF-8 of characters that ``clean`` leaves alone: ASCII but control characters, and U+00C0 to U+02FF, which are in NFC.
_PLAIN_BYTES = bytes((9, 10, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC3, 0xCC)))
_SURROGATE = re.compile("[\ud800-\udfff]")
_VISIBLE = re.compile("[^\\s\u200b-\u200d\u2060\ufeff]")
BYTE_ORDER_MARK = "\ufeff"

TYPES = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "text",
    list: "a list",
    dict: "an object",
}


# "Stream-safe" in UAX #15: no writing needs more, and sorting them takes time quadratic in their number.
MOST_MARKS = 30
# These have no combining class themselves, but decompose into marks alone.
_MADE_OF_MARKS = (0x0F73, 0x0F75, 0x0F81)
_LAST_MARK = 0x1E94A


# Every tenth character is looked at; of a run of more than MOST_MARKS these are at least _HITS in sequence.
_STRIDE = 10
_HITS = (MOST_MARKS + 1) // _STRIDE


@cache
def _stacked() -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Patterns of _HITS and of more than MOST_MARKS combining marks in sequence; compiled when first needed."""
    marks = {code for code in range(0x300, _LAST_MARK + 1) if unicodedata.combining(chr(code))} | {*_MADE_OF_MARKS}
    starts = sorted(code for code in marks if code - 1 not in marks)
    ends = sorted(code for code in marks if code + 1 not in marks)
    ranges = "".join(f"{chr(start)}-{chr(end)}" for start, end in zip(starts, ends, strict=True))
    return re.compile(f"[{ranges}]{{{_HITS}}}"), re.compile(f"[{ranges}]{{{MOST_MARKS + 1}}}")


def has_stacked_marks(text: str) -> bool:
    """Whether ``text`` has more than MOST_MARKS combining marks in sequence, for which NFC would be slow."""
    if len(text) <= MOST_MARKS:
        return False
    hit, run = _stacked()
    return hit.search(text[::_STRIDE]) is not None and run.search(text) is not None


def clean(text: str, field: str = "text") -> str:
    """``text`` in NFC, with line ends as ``\\n`` and without control characters other than tab and line feed.

    Line ends are CR LF, CR, VT, FF and NEL. A byte order mark is removed only at the start, where it has no meaning.
    Elsewhere it forbids a line break, and stays like joiners (ZWJ, ZWNJ), soft hyphens and directional marks.
    ``clean(clean(text)) == clean(text)``. Raises RowProblem at ``field`` for a text that is not stream-safe.
    """
    if not text.encode(errors="surrogatepass").translate(None, _PLAIN_BYTES):
        return text
    text = _CONTROLS.sub("", _LINE_ENDS.sub("\n", text)).lstrip(BYTE_ORDER_MARK)
    if has_stacked_marks(text):
        problem = f"this text has more than {MOST_MARKS} combining marks in sequence; no script uses so many"
        raise RowProblem(Reason.BAD_TEXT, field, problem)
    return unicodedata.normalize("NFC", text)


def is_blank(text: str) -> bool:
    """Whether ``text`` contains only white space and characters of no width."""
    return _VISIBLE.search(text) is None


class TextReader:
    """Reads the texts of one row and remembers whether any of them was changed."""

    def __init__(self) -> None:
        self.changed = False

    def text(self, value: Any, field: str) -> str:
        """``value``, which must be a text that is not blank, cleaned."""
        text = self.maybe_empty(value, field)
        if is_blank(text):
            raise RowProblem(Reason.EMPTY_TEXT, field, "this text is empty")
        return text

    def maybe_empty(self, value: Any, field: str) -> str:
        """``value``, which must be a text, cleaned."""
        if not isinstance(value, str):
            raise RowProblem(Reason.WRONG_TYPE, field, f"this should be text, not {TYPES[type(value)]}")
        refuse_surrogates(value, field)
        text = clean(value, field)
        self.changed = self.changed or text != value
        return text


def refuse_surrogates(value: str, field: str) -> None:
    """Raise RowProblem if ``value`` cannot be encoded as UTF-8."""
    if _SURROGATE.search(value):
        raise RowProblem(Reason.BAD_TEXT, field, "this text holds half of a surrogate pair (\\ud800 to \\udfff)")
