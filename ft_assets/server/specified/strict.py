"""An unknown member of a body, or an unknown query parameter, is an error by its name."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel, ConfigDict, model_validator

from ft_resources.errors import UnknownParameter, UserError
from ft_resources.strict import nearest


class Given(BaseModel):
    """A client's body. Raises UnknownParameter, which says what to write instead, for a member that it does not
    have."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    @model_validator(mode="before")
    @classmethod
    def _known(cls, data: Any) -> Any:
        if isinstance(data, dict):
            for name in data:
                _require_known(name, list(cls.model_fields), "member")
        return data


@contextmanager
def told_as(names: Mapping[str, str]) -> Iterator[None]:
    """Name what was sent by the names that it has here."""
    try:
        yield
    except UserError as error:
        first, dot, rest = error.where.partition(".")
        error.where = f"{names.get(first, first)}{dot}{rest}"
        raise


async def _known_query(request: Request) -> None:
    known = list(_names(request.scope["route"].dependant))
    for name in request.query_params:
        _require_known(name, known, "query parameter")


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (each.alias for each in dependant.query_params)
    for each in dependant.dependencies:
        yield from _names(each)


def _require_known(name: str, known: list[str], what: str) -> None:
    if name not in known:
        meant = f"Leave it out; {nearest(name, known)}" if known else "Leave it out."
        raise UnknownParameter(f"there is no {what} {name[:64]!r} here", where=name[:64], remedy=meant)


KNOWN_QUERY = Depends(_known_query)
"""For the ``dependencies`` of a router: raises UnknownParameter for a query parameter that an address does not have."""
