"""The base model and field types of user-written settings."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, Strict

from ft_resources.errors import UserError
from ft_resources.strict_model import StrictModel

Auto = Literal["auto"]


def text_check(check: Callable[[str], object]) -> AfterValidator:
    """A validator that keeps the text and turns the check's UserError into the ValueError pydantic collects."""

    def validate(text: str) -> str:
        try:
            check(text)
        except UserError as error:
            raise ValueError(f"{error.what}. {error.remedy}") from error
        return text

    return AfterValidator(validate)


def unique(values: tuple[str, ...]) -> tuple[str, ...]:
    """``values``. Raises ValueError for duplicates."""
    if len(set(values)) != len(values):
        raise ValueError("a value is listed twice")
    return values


# Lists become tuples, so that a recipe is immutable and hashable; both are accepted.
Names = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Strict(False), AfterValidator(unique)
]


def _readable(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError("should be visible text without line breaks; spaces are allowed")
    return text


# Enough for a domain's vocabulary; a language that the base does not know needs another base.
NewTokens = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_readable)], ...],
    Strict(False),
    Field(max_length=4096),
    AfterValidator(unique),
]


class Settings(StrictModel):
    """What people write: a recipe's sections, the tenants file."""
