"""Sentences, words and language of an answer, as the instruction checks count them.

The paper's own checks split sentences with NLTK's trained model, which is a download. Here a sentence ends at ``.``,
``!``, ``?`` or ``…`` before white space and something that may begin a sentence, unless the dot belongs to a known
abbreviation, an initial or a list number. A line break alone does not end a sentence. On edited prose both agree except
for rare abbreviations.
"""

import re
from functools import cache
from typing import Any

# The languages of langdetect, which the paper's checks use; Chinese is one.
_CODES = (
    "af ar bg bn ca cs cy da de el en es et fa fi fr gu he hi hr hu id it ja kn ko lt lv mk ml mr ne nl no pa pl pt ro "
    "ru sk sl so sq sv sw ta te th tl tr uk ur vi zh"
)
LANGUAGES = tuple(_CODES.split())

_END = re.compile(r"([.!?…]+[\"'”’)\]*]*)\s+(?=[\"'“‘(\[*#]*[^\W_a-z]|[-•])|([。！？।]+)\s*")
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|etc|e\.g|i\.e|inc|ltd|co|corp|vol|fig|gen|col|lt|sgt|capt|rev|hon|"
    r"dept|approx|a\.m|p\.m|u\.s|u\.k|ph\.d|jan|feb|mar|apr|jun|jul|aug|sep|sept|oct|nov|dec)|\b[A-HJ-Za-z]|^\s*\d+|"
    r"\n\s*\d+)\.$",
    re.IGNORECASE,
)
_WORD = re.compile(r"\w+")
# Letters with the characters that join them: "U.S", "O'Neil" and "FORTY-TWO" are one word each, as for a reader.
_JOINED = re.compile(r"\w+(?:[-'’.&]\w+)*")


def count_sentences(text: str) -> int:
    """The number of sentences."""
    count, begin = 0, 0
    for end in _END.finditer(text):
        before = text[begin : end.end(1) if end[1] else end.end()]
        if end[1] and _ABBREVIATION.search(before):
            continue
        count += bool(_WORD.search(before))
        begin = end.end()
    return count + bool(_WORD.search(text[begin:]))


def count_words(text: str) -> int:
    """The number of runs of letters, digits and underscores: NLTK's ``RegexpTokenizer(r"\\w+")``."""
    return len(_WORD.findall(text))


def count_capital_words(text: str) -> int:
    """The number of words that have letters but no lower-case ones."""
    return sum(word.isupper() for word in _JOINED.findall(text))


def is_language(text: str, language: str) -> bool:
    """Whether ``text`` is mostly in ``language`` (one of LANGUAGES), by py3langid (Lui & Baldwin 2012, "langid.py").

    A text without letters is in any language, as in the paper's checks.
    """
    if not any(character.isalpha() for character in text):
        return True
    # The detector is unreliable on texts all in capitals.
    found: str = _identifier().classify(text.lower())[0]
    return found == language


@cache
def _identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE)
    identifier.set_languages(list(LANGUAGES))
    return identifier
