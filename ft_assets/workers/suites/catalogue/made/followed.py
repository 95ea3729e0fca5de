"""Requests with instructions that a program can check, in IFEval's format; ``kinds/checks.py`` checks them.

Subjects, requests and wordings are ours, not IFEval's. A prompt has at most one instruction of a family, so that one
answer can follow all of them.
"""

from collections.abc import Callable, Iterator
from typing import Any

from ft_assets.workers.suites.catalogue.made.draw import Draw
from ft_assets.workers.suites.catalogue.made.lists import WORDS

# Its sentence in the prompt, IFEval's name for it, and its settings.
Instruction = tuple[str, str, dict[str, Any]]
_REQUESTS = (
    "Describe {} for somebody who has never seen one.", "Write a short story about {}.",
    "Write a letter to a friend about {}.", "Explain what {} is good for.", "Write a notice about {} that was lost.",
    "Say how you would draw {}.", "Write a riddle about {}, and its solution.", "Advertise {} at a village fair.",
    "Compare {} with something else of your choice.", "Write a scene of a play in which {} matters.",
)  # fmt: skip
_ENDS = ("That is all for today.", "Ask me if anything is unclear.", "The rest is silence.", "Now it is your turn.")
_FORBIDDEN = ("very", "good", "because", "always", "thing", "really", "however", "beautiful")


def _count_words(draw: Draw) -> Instruction:
    few = draw.below(2) == 0
    number = 10 * (draw.between(4, 10) if few else draw.between(6, 12))
    words = f"Use fewer than {number} words." if few else f"Use at least {number} words."
    settings = {"num_words": number, "relation": "less than" if few else "at least"}
    return words, "length_constraints:number_words", settings


def _count_sentences(draw: Draw) -> Instruction:
    number = draw.between(3, 6)
    settings = {"num_sentences": number, "relation": "at least"}
    return f"Write at least {number} sentences.", "length_constraints:number_sentences", settings


def _keywords(draw: Draw) -> Instruction:
    words = draw.some(WORDS, 2)
    return f"Use the words {words[0]} and {words[1]}.", "keywords:existence", {"keywords": words}


def _frequency(draw: Draw) -> Instruction:
    word, number = draw.one(WORDS), draw.between(2, 4)
    settings = {"keyword": word, "frequency": number, "relation": "at least"}
    return f"Use the word {word} at least {number} times.", "keywords:frequency", settings


def _forbidden(draw: Draw) -> Instruction:
    words = draw.some(_FORBIDDEN, 2)
    settings = {"forbidden_words": words}
    return f"Do not use the words {words[0]} and {words[1]}.", "keywords:forbidden_words", settings


def _bullets(draw: Draw) -> Instruction:
    number = draw.between(2, 5)
    words = f"Your answer must have exactly {number} bullet points, each a line that begins with a star and a space."
    return words, "detectable_format:number_bullet_lists", {"num_bullets": number}


def _highlights(draw: Draw) -> Instruction:
    number = draw.between(2, 3)
    words = f"Highlight at least {number} parts of your answer by stars around them, as in *part*."
    return words, "detectable_format:number_highlighted_sections", {"num_highlights": number}


def _sections(draw: Draw) -> Instruction:
    number, word = draw.between(2, 4), draw.one(("Section", "Part", "Chapter"))
    words = f"Give your answer {number} sections, headed {word} 1, {word} 2 and so on."
    return words, "detectable_format:multiple_sections", {"section_spliter": word, "num_sections": number}


def _title(draw: Draw) -> Instruction:
    return "Give your answer a title in double angular brackets, as in <<title>>.", "detectable_format:title", {}


def _placeholders(draw: Draw) -> Instruction:
    number = draw.between(2, 4)
    words = f"Leave at least {number} gaps to be filled in, each named in square brackets, as in [name]."
    return words, "detectable_content:number_placeholders", {"num_placeholders": number}


def _lower(draw: Draw) -> Instruction:
    return "Write in English, in lower case letters only, with no capitals.", "change_case:english_lowercase", {}


def _upper(draw: Draw) -> Instruction:
    return "Write in English, in capital letters only.", "change_case:english_capital", {}


def _no_comma(draw: Draw) -> Instruction:
    return "Use no commas.", "punctuation:no_comma", {}


def _end(draw: Draw) -> Instruction:
    phrase = draw.one(_ENDS)
    return f'End with exactly these words: "{phrase}"', "startend:end_checker", {"end_phrase": phrase}


def _quotation(draw: Draw) -> Instruction:
    return "Put your whole answer in double quotation marks.", "startend:quotation", {}


FAMILIES: tuple[tuple[Callable[[Draw], Instruction], ...], ...] = (
    (_count_words,),
    (_keywords, _frequency, _forbidden),
    (_bullets, _highlights, _title, _placeholders, _no_comma),
    # Sections, last words and the beginnings of sentences need capitals and small letters.
    (_lower, _upper, _end, _quotation, _sections, _count_sentences),
)


def items(draw: Draw) -> Iterator[dict[str, Any]]:
    """Rows as IFEval's: ``prompt``, ``instruction_id_list`` and ``kwargs``; one to three instructions."""
    while True:
        for count in (1, 2, 3):
            word = draw.one(WORDS)
            about = f"{'an' if word[0] in 'aeio' else 'a'} {word}"
            chosen = [draw.one(family)(draw) for family in draw.some(FAMILIES, count)]
            yield {
                "prompt": " ".join([draw.one(_REQUESTS).format(about), *(words for words, _, _ in chosen)]),
                "instruction_id_list": [name for _, name, _ in chosen],
                "kwargs": [settings for _, _, settings in chosen],
            }
