"""What all objects of the description have in common."""

from typing import Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict

Item = TypeVar("Item")
Responses = dict[int | str, dict[str, Any]]


class Object(BaseModel):
    """An object with these fields and no others."""

    model_config = ConfigDict(extra="forbid")


class Page(Object, Generic[Item]):
    """A page of a list; ``last_id`` is the next one's ``after``."""

    object: Literal["list"]
    data: list[Item]
    has_more: bool
    first_id: str | None
    last_id: str | None


def answered(model: type[BaseModel]) -> Responses:
    """The answer of a request that was carried out, for the ``responses`` of a route."""
    return {200: {"model": model}}
