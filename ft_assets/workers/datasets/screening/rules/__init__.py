"""Forms of secrets, as data: those of CredSweeper (converted by ``tools/secret_rules.py``, licence beside them) and our
own."""

import re
import tomllib
from importlib.resources import files
from typing import NamedTuple, Self

from pydantic import Field, model_validator

from ft_resources.strict import parse_strict
from ft_resources.strict_model import StrictModel

_FILES = ("credsweeper.toml", "own.toml")
KEYWORD_LENGTH = 3


class Rule(StrictModel):
    """One form of a secret."""

    id: str = Field(pattern="^[a-z0-9-]+$", description="Its name, unique in its file.")
    keywords: tuple[str, ...] = Field(
        description="Each secret of this form begins with one of these, of at least three ASCII characters. None: the "
        "form has no fixed beginning, and is looked for in long runs only."
    )
    pattern: str = Field(description="Regular expression (Python's); the group `value`, if any, is the secret.")
    entropy: float = Field(ge=0, le=8, description="Least bits per character; placeholders stay below it.")

    @model_validator(mode="after")
    def _can_be_searched_for(self) -> Self:
        if any(len(keyword) < KEYWORD_LENGTH or not keyword.isascii() for keyword in self.keywords):
            raise ValueError(f"a keyword has at least {KEYWORD_LENGTH} ASCII characters")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(f"the pattern is no regular expression: {error}") from error
        return self


class _Rules(StrictModel):
    rules: tuple[Rule, ...]


class Form(NamedTuple):
    """A rule, compiled: the pattern for UTF-8, with the group ``value``."""

    id: str
    keywords: tuple[bytes, ...]
    pattern: re.Pattern[bytes]
    entropy: float


def read_rules(text: str, where: str) -> list[Form]:
    """The rules in the TOML ``text``; raises BadRecipe for one that cannot be used."""
    return [_compiled(rule) for rule in parse_strict(_Rules, tomllib.loads(text), where).rules]


def _compiled(rule: Rule) -> Form:
    whole = rule.pattern if "(?P<value>" in rule.pattern else f"(?P<value>{rule.pattern})"
    # Not the beginning of a longer word.
    pattern = re.compile(rb"(?:%s)(?![A-Za-z0-9_])" % whole.encode())
    return Form(rule.id, tuple(keyword.encode() for keyword in rule.keywords), pattern, rule.entropy)


FORMS = tuple(form for name in _FILES for form in read_rules((files(__name__) / name).read_text("utf-8"), name))
