"""Regular expressions of suites: those that cannot run forever on a model's output.

Python's ``re`` backtracks: a repetition inside a repetition, such as ``(a+)+$``, takes time exponential in the text's
length (Davis et al. 2018, "The Impact of Regular Expression Denial of Service in Practice",
https://doi.org/10.1145/3236024.3236027). Such patterns are refused, and so are many repetitions in sequence. The rest
take polynomial time, which is still long if a model repeats one character. So patterns run with the package ``regex``,
which supports timeouts; a timeout is an error and not an answer.
"""

import re
import re._constants as constants
import re._parser as parser
from collections.abc import Iterator
from typing import Any

MAX_CHARACTERS = 500
# In sequence: each long one may raise the power of the text's length by one, each optional part doubles the time.
MAX_REPEATS, MAX_OPTIONAL = 3, 8
# Seconds for one pattern on one answer; usual ones take microseconds.
MOST_S = 10.0
_REPEATS = (constants.MAX_REPEAT, constants.MIN_REPEAT)
_BACK = (constants.GROUPREF, constants.GROUPREF_EXISTS)


def check_pattern(pattern: str) -> str:
    """``pattern``. Raises ValueError if it is invalid, longer than 500 characters, or may take forever."""
    if len(pattern) > MAX_CHARACTERS:
        raise ValueError(f"the pattern is longer than {MAX_CHARACTERS} characters")
    try:
        re.compile(pattern)
        found = list(_walk(parser.parse(pattern), inside=False))
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"this is not a regular expression ({error})") from error
    varying = [(value, inside) for operator, value, inside in found if operator in _REPEATS and value[0] != value[1]]
    if any(operator in _BACK for operator, _, _ in found):
        raise ValueError("the pattern has a back-reference, which may take for ever; write the text out")
    if any(inside for _, inside in varying) or any(
        inside and operator is constants.BRANCH for operator, _, inside in found
    ):
        raise ValueError(
            "the pattern repeats something that varies or chooses itself, which may take for ever; write it flat"
        )
    optional = sum(value[1] == 1 for value, _ in varying)
    if optional > MAX_OPTIONAL or len(varying) - optional > MAX_REPEATS:
        raise ValueError(
            f"the pattern has more than {MAX_REPEATS} repetitions or {MAX_OPTIONAL} optional parts, which may take for "
            "ever; shorten it"
        )
    return pattern


def replace(string: Any, pattern: str, repl: str, count: int = 0) -> str:
    """lm-eval's Jinja filter ``regex_replace``. Raises ValueError for a refused pattern, TimeoutError."""
    import regex

    check_pattern(pattern)
    return str(regex.sub(pattern, repl, str(string), count=count, timeout=MOST_S))


class TimedPatterns:
    """The part of Python's ``re`` that suites and lm-eval use on answers; raises TimeoutError after ``MOST_S``."""

    IGNORECASE = re.IGNORECASE

    def __getattr__(self, name: str) -> Any:
        return getattr(re, name)

    def compile(self, pattern: str, flags: int = 0) -> "_Timed":
        """A pattern with ``findall`` and ``search``."""
        return _Timed(pattern, flags)

    def sub(self, pattern: str, repl: str, string: str) -> str:
        """As ``re.sub``."""
        import regex

        return str(regex.sub(pattern, repl, str(string), timeout=MOST_S))


class _Timed:
    def __init__(self, pattern: str, flags: int) -> None:
        import regex

        self._pattern = regex.compile(pattern, regex.IGNORECASE if flags & re.IGNORECASE else 0)

    def findall(self, text: str) -> list[Any]:
        found: list[Any] = self._pattern.findall(text, timeout=MOST_S)
        return found

    def search(self, text: str) -> Any:
        return self._pattern.search(text, timeout=MOST_S)


def _walk(tree: Any, *, inside: bool) -> Iterator[tuple[Any, Any, bool]]:
    """Every operator with its value, and whether it is inside a repetition."""
    for operator, value in tree:
        yield operator, value, inside
        deeper = inside or (operator in _REPEATS and value[1] != 1)
        for part in _parts(value):
            yield from _walk(part, inside=deeper)


def _parts(value: Any) -> Iterator[Any]:
    if isinstance(value, parser.SubPattern):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _parts(each)
