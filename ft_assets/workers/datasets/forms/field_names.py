"""Words in the names of an upload's fields."""

import re

_WORDS = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]+|[^\W\d_a-zA-Z]+")
ANSWERS = (
    *("answer", "response", "output", "completion", "reply", "target", "solution", "assistant", "summary"),
    "a",
)
"""Words in the name of a field that holds an answer, the most usual first."""


def words(name: str) -> list[str]:
    """The words of ``name``, in lower case and the singular: ``modelReplies_2`` is model, replie."""
    return [word.lower().removesuffix("s") if len(word) > 3 else word.lower() for word in _WORDS.findall(name)]


def joined(name: str) -> str:
    """The words of ``name`` in one."""
    return "".join(words(name))


def names_one_of(name: str, known: tuple[str, ...]) -> bool:
    """Whether ``name``, or a word of it, is ``known``."""
    return bool({joined(name), *words(name)} & {*known})


def names_an_answer(name: str) -> bool:
    """Whether a field of this name probably holds an answer."""
    return names_one_of(name, ANSWERS)
