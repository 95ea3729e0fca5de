"""The 25 instructions of IFEval that a program can check: a name, settings, and a function of the answer.

From the paper's Table 1 and appendix (Zhou et al. 2023, https://arxiv.org/abs/2311.07911). If the text leaves a choice,
the published checks decide, as scores are compared with published ones: keywords are found inside words, bullet points
are counted exactly, sections need a number after their word. The differences are in ``text_parts.py`` (sentences,
language).
"""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ft_assets.workers.suites.kinds.text_parts import (
    LANGUAGES,
    count_capital_words,
    count_sentences,
    count_words,
    is_language,
)
from ft_resources.errors import BadRecipe

Check = Callable[[str], bool]
_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Maker:
    """How an instruction becomes a check: the settings it needs, by name and type, and the function that makes it."""

    make: Callable[..., Check]
    needs: Mapping[str, type]


def make_check(name: str, settings: Any, where: str) -> Check:
    """The check of instruction ``name`` (a key of CHECKS). Null settings count as absent, as in IFEval's files.

    Raises BadRecipe for a setting that is missing, unknown, of another type, or has a value outside the instruction's.
    """
    maker = CHECKS[name]
    given = {key: value for key, value in settings.items() if value is not None} if isinstance(settings, dict) else None
    if given is None or set(given) != set(maker.needs):
        listed = ", ".join(maker.needs) or "nothing"
        raise BadRecipe(f"{name} needs {listed} in kwargs", where=where, remedy="Correct the item's kwargs.")
    given = {key: _typed(value, maker.needs[key], f"{name}: {key}", where) for key, value in given.items()}
    try:
        return maker.make(**given)
    except ValueError as error:
        raise BadRecipe(f"{name}: {error}", where=where, remedy="Correct the item's kwargs.") from error


def _typed(value: Any, kind: type, what: str, where: str) -> Any:
    """A setting's value; whole numbers may be written as 3.0, as tables do. Raises BadRecipe for another type."""
    if kind is int and isinstance(value, float) and value.is_integer():
        value = int(value)
    texts = [value] if kind is str else value if kind is list and isinstance(value, list) else []
    filled = all(isinstance(text, str) and text.strip() for text in texts) and bool(texts or kind is int)
    negative = isinstance(value, int) and value < 0
    if not isinstance(value, kind) or isinstance(value, bool) or not filled or negative:
        form = {str: "a text", int: "a whole number", list: "a list of texts"}[kind]
        raise BadRecipe(f"{what} is not {form}", where=where, remedy="Correct the item's kwargs.")
    return value


def _counted(count: Callable[[str], int], relation: str, threshold: int) -> Check:
    if relation not in ("at least", "less than"):
        raise ValueError("the relation is neither 'at least' nor 'less than'")
    return lambda answer: (count(answer) >= threshold) == (relation == "at least")


def _existence(keywords: Sequence[str]) -> Check:
    return lambda answer: all(word.lower() in answer.lower() for word in keywords)


def _forbidden(forbidden_words: Sequence[str]) -> Check:
    patterns = [re.compile(rf"\b{re.escape(word)}\b", re.IGNORECASE) for word in forbidden_words]
    return lambda answer: not any(pattern.search(answer) for pattern in patterns)


def _frequency(keyword: str, frequency: int, relation: str) -> Check:
    return _counted(lambda answer: answer.lower().count(keyword.strip().lower()), relation, frequency)


def _letters(letter: str, let_frequency: int, let_relation: str) -> Check:
    if len(letter) != 1:
        raise ValueError("letter is not one character")
    return _counted(lambda answer: answer.lower().count(letter.lower()), let_relation, let_frequency)


def _language(language: str) -> Check:
    code = "zh" if language in ("zh-cn", "zh-tw") else language
    if code not in LANGUAGES:
        raise ValueError(f"{language!r} is none of {', '.join(LANGUAGES)}")
    return lambda answer: is_language(answer, code)


def _parts(answer: str, separator: str) -> list[str] | None:
    """The texts between separators; None if one between two of them is empty. Those at the ends may be empty."""
    parts = re.split(separator, answer)
    if any(not part.strip() for part in parts[1:-1]):
        return None
    return [part.strip() for part in parts if part.strip()]


def _paragraphs(num_paragraphs: int) -> Check:
    def check(answer: str) -> bool:
        parts = _parts(answer, r"\s?\*\*\*\s?")
        return parts is not None and len(parts) == num_paragraphs

    return check


def _two_responses() -> Check:
    def check(answer: str) -> bool:
        parts = _parts(answer, re.escape("******"))
        return parts is not None and len(parts) == 2 and parts[0] != parts[1]

    return check


def _first_word(num_paragraphs: int, nth_paragraph: int, first_word: str) -> Check:
    def check(answer: str) -> bool:
        places = answer.split("\n\n")
        filled = sum(bool(part.strip()) for part in places)
        # The nth is counted among all, including empty ones, but must not be empty itself.
        if not 1 <= nth_paragraph <= filled or not places[nth_paragraph - 1].strip():
            return False
        word = places[nth_paragraph - 1].split()[0].lstrip("'\"")
        return filled == num_paragraphs and re.split(r"[.,?!'\"]", word)[0].lower() == first_word.lower()

    return check


def _placeholders(num_placeholders: int) -> Check:
    return lambda answer: len(re.findall(r"\[.*?\]", answer)) >= num_placeholders


def _postscript(postscript_marker: str) -> Check:
    spelled = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}.get(postscript_marker)
    pattern = re.compile(spelled or re.escape(postscript_marker.lower()))
    return lambda answer: bool(pattern.search(answer.lower()))


def _bullets(num_bullets: int) -> Check:
    # A star that begins bold text is not a bullet.
    pattern = re.compile(r"^\s*(?:\*[^*]|-).*$", re.MULTILINE)
    return lambda answer: len(pattern.findall(answer)) == num_bullets


def _constrained() -> Check:
    return lambda answer: any(option in answer for option in _OPTIONS)


def _highlights(num_highlights: int) -> Check:
    def check(answer: str) -> bool:
        found = re.findall(r"\*[^\n*]*\*", answer) + re.findall(r"\*\*[^\n*]*\*\*", answer)
        return sum(bool(each.strip("*").strip()) for each in found) >= num_highlights

    return check


def _sections(section_spliter: str, num_sections: int) -> Check:
    pattern = re.compile(rf"\s?{re.escape(section_spliter.strip())}\s?\d+\s?")
    return lambda answer: len(pattern.findall(answer)) >= num_sections


def _json() -> Check:
    def check(answer: str) -> bool:
        text = re.sub(r"^```(?:json)?", "", answer.strip(), flags=re.IGNORECASE)
        try:
            json.loads(text.removesuffix("```").strip())
        except (ValueError, RecursionError):
            return False
        return True

    return check


def _title() -> Check:
    return lambda answer: any(each.strip("<>").strip() for each in re.findall(r"<<[^\n]+>>", answer))


def _repeat(prompt_to_repeat: str) -> Check:
    return lambda answer: answer.strip().lower().startswith(prompt_to_repeat.strip().lower())


def _end(end_phrase: str) -> Check:
    return lambda answer: answer.strip().strip('"').lower().endswith(end_phrase.strip().lower())


def _quotation() -> Check:
    return lambda answer: len(answer.strip()) > 1 and answer.strip()[0] == answer.strip()[-1] == '"'


def _english(cased: Callable[[str], bool]) -> Check:
    return lambda answer: cased(answer) and is_language(answer, "en")


CHECKS: dict[str, _Maker] = {
    "keywords:existence": _Maker(make=_existence, needs={"keywords": list}),
    "keywords:frequency": _Maker(make=_frequency, needs={"keyword": str, "frequency": int, "relation": str}),
    "keywords:forbidden_words": _Maker(make=_forbidden, needs={"forbidden_words": list}),
    "keywords:letter_frequency": _Maker(
        make=_letters, needs={"letter": str, "let_frequency": int, "let_relation": str}
    ),
    "language:response_language": _Maker(make=_language, needs={"language": str}),
    "length_constraints:number_sentences": _Maker(
        make=lambda num_sentences, relation: _counted(count_sentences, relation, num_sentences),
        needs={"num_sentences": int, "relation": str},
    ),
    "length_constraints:number_paragraphs": _Maker(make=_paragraphs, needs={"num_paragraphs": int}),
    "length_constraints:number_words": _Maker(
        make=lambda num_words, relation: _counted(count_words, relation, num_words),
        needs={"num_words": int, "relation": str},
    ),
    "length_constraints:nth_paragraph_first_word": _Maker(
        make=_first_word, needs={"num_paragraphs": int, "nth_paragraph": int, "first_word": str}
    ),
    "detectable_content:number_placeholders": _Maker(make=_placeholders, needs={"num_placeholders": int}),
    "detectable_content:postscript": _Maker(make=_postscript, needs={"postscript_marker": str}),
    "detectable_format:number_bullet_lists": _Maker(make=_bullets, needs={"num_bullets": int}),
    "detectable_format:constrained_response": _Maker(make=_constrained, needs={}),
    "detectable_format:number_highlighted_sections": _Maker(make=_highlights, needs={"num_highlights": int}),
    "detectable_format:multiple_sections": _Maker(make=_sections, needs={"section_spliter": str, "num_sections": int}),
    "detectable_format:json_format": _Maker(make=_json, needs={}),
    "detectable_format:title": _Maker(make=_title, needs={}),
    "combination:two_responses": _Maker(make=_two_responses, needs={}),
    "combination:repeat_prompt": _Maker(make=_repeat, needs={"prompt_to_repeat": str}),
    "startend:end_checker": _Maker(make=_end, needs={"end_phrase": str}),
    "startend:quotation": _Maker(make=_quotation, needs={}),
    "change_case:capital_word_frequency": _Maker(
        make=lambda capital_frequency, capital_relation: _counted(
            count_capital_words, capital_relation, capital_frequency
        ),
        needs={"capital_frequency": int, "capital_relation": str},
    ),
    "change_case:english_capital": _Maker(make=lambda: _english(str.isupper), needs={}),
    "change_case:english_lowercase": _Maker(make=lambda: _english(str.islower), needs={}),
    "punctuation:no_comma": _Maker(make=lambda: lambda answer: "," not in answer, needs={}),
}
