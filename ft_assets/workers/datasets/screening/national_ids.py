"""National and medical numbers, by presidio's pattern recognisers; none of them loads a model."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from ft_assets.settings.dataset.recogniser import NationalId
from ft_assets.workers.datasets.screening.found import Span
from ft_resources.errors import UserError

# A presidio pattern with at least this score has a form so rare that it needs no word beside it.
_OWN_FORM = 0.5
# Letters, or the groups of US_SSN and KR_RRN; the groups of others also occur in phone numbers.
_RARE = re.compile(r"[A-Za-z]|^[0-9]{3}-[0-9]{2}-[0-9]{4}$|^[0-9]{6}-[0-9]{7}$")
# Some patterns, such as that of Indian tax numbers, accept words.
_MIN_DIGITS = 3
_BEFORE, _AFTER = 60, 24
# Characters that are read together, and beside them on both sides: no number with what is near it is longer.
_WINDOW, _MARGIN = 1024, 128


def find_ids(raw: bytes, entities: tuple[NationalId, ...]) -> Iterator[Span]:
    """The numbers of ``entities`` in the text ``raw``, as ``id``.

    A number counts if presidio's recogniser accepts it (its form, and its check digits if it has any) and a word of the
    recogniser's context, such as "tax file number", is near it. Without such a word only a rare form counts, with
    letters or as in 536-22-8726: a tenth of all numbers have correct check digits.

    Raises:
        UserError: if presidio-analyzer is not installed.
    """
    text, passed = raw.decode(), 0
    for first, last in _windows(len(text)):
        window = text[max(0, first - _MARGIN) : last + _MARGIN]
        for start, end in _found(window, entities):
            at = start + max(0, first - _MARGIN)
            if first <= at < last:
                begin = passed + len(text[first:at].encode())
                yield Span(begin, begin + len(window[start:end].encode()), "id")
        passed += len(text[first:last].encode())


def _windows(length: int) -> Iterator[tuple[int, int]]:
    """A text in parts: of some of the patterns the time grows with the square of the text."""
    for first in range(0, length, _WINDOW):
        yield first, min(first + _WINDOW, length)


def _found(text: str, entities: tuple[NationalId, ...]) -> Iterator[tuple[int, int]]:
    """Where in ``text`` numbers begin and end, in characters."""
    for recogniser, context in _recognisers(entities):
        for result in recogniser.analyze(text, recogniser.supported_entities, None):
            start, end = result.start, result.end
            value = text[start:end]
            near = text[max(0, start - _BEFORE) : start] + " " + text[end : end + _AFTER]
            certain = result.analysis_explanation.original_score >= _OWN_FORM and _RARE.search(value)
            if sum(map(str.isdigit, value)) >= _MIN_DIGITS and (certain or context.search(near)):
                yield start, end


@lru_cache(maxsize=8)
def _recognisers(entities: tuple[NationalId, ...]) -> list[tuple[Any, re.Pattern[str]]]:
    """Presidio's recognisers of ``entities``, each with the words that tell of its numbers."""
    try:
        from presidio_analyzer import PatternRecognizer, predefined_recognizers
    except ImportError as error:
        raise UserError(
            "the policy uses presidio, which is not installed in this environment",
            where="dataset.yaml: personal_data: recogniser",
            remedy="Install ft-platform[presidio] where workers run, or leave the recogniser out.",
        ) from error
    classes = [each for each in vars(predefined_recognizers).values() if isinstance(each, type)]
    patterns: list[Any] = [each for each in classes if issubclass(each, PatternRecognizer)]
    made = [each() for each in patterns if each is not PatternRecognizer]
    chosen = [each for each in made if set(each.supported_entities) & set(entities)]
    return [(each, _any_word(each.context or each.supported_entities)) for each in chosen]


def _any_word(words: list[str]) -> re.Pattern[str]:
    return re.compile(r"(?<!\w)(?:" + "|".join(map(re.escape, words)) + r")(?!\w)", re.IGNORECASE)
