"""What all sections of a recipe are made of."""

from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict

from ft_resources.errors import UserError

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
    """``values``. Raises ValueError where one of them is there twice."""
    if len(set(values)) != len(values):
        raise ValueError("lists something twice")
    return values


# Lists become tuples, so that a recipe is immutable and hashable; both may be given.
Names = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Strict(False), AfterValidator(unique)
]


def _readable(text: str) -> str:
    if not text.isprintable() or not text.strip():
        raise ValueError("should be text that can be seen, without line breaks; spaces may be part of it")
    return text


# As many as a domain's words come to; a language that the base does not know wants another base.
NewTokens = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=64), AfterValidator(_readable)], ...],
    Strict(False),
    Field(max_length=4096),
    AfterValidator(unique),
]


class Settings(BaseModel):
    """What all recipe sections share: unknown keys, other types, NaN and infinities are errors; frozen."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
