"""An unknown member of a body, or an unknown query parameter, is an error by its name."""

from collections.abc import Iterator

from fastapi import Depends, Request
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel, ConfigDict

from ft_resources.errors import UserError


class Given(BaseModel):
    """What a client sends; an unknown member is an error."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


async def _known_query(request: Request) -> None:
    """Raise UserError for a query parameter that the address does not have."""
    known = sorted(_names(request.scope["route"].dependant))
    for name in request.query_params:
        if name not in known:
            may = f"Write {' or '.join(known)}, or leave it out." if known else "Leave it out."
            raise UserError(f"there is no query parameter {name!r} here", where="query", remedy=may)


def _names(dependant: Dependant) -> Iterator[str]:
    yield from (each.alias for each in dependant.query_params)
    for each in dependant.dependencies:
        yield from _names(each)


KNOWN_QUERY = Depends(_known_query)
"""For the ``dependencies`` of a router."""
