"""Pages of a list, as OpenAI's clients turn them: ``after`` is the last id of the page before."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query

from ft_resources.errors import UserError

Limit = Annotated[int, Query(ge=1, le=10_000)]
After = Annotated[str, Query(max_length=200)]
Order = Literal["asc", "desc"]
Item = TypeVar("Item")


def page_of(
    ids: Sequence[str], read: Callable[[str], dict[str, Any] | None], *, prefix: str, after: str, limit: int
) -> dict[str, Any]:
    """A page of at most ``limit`` things after ``after``; ``read`` gives a thing by its id, None to leave it out.

    ``ids`` are without ``prefix``, which ``after`` has. Raises UserError for an ``after`` that is not among them.
    """
    start = 0
    if after:
        try:
            start = ids.index(after.removeprefix(prefix)) + 1
        except ValueError:
            raise UserError(f"there is no {after!r} in this list", where="after", remedy="Start without it.") from None
    found: list[dict[str, Any]] = []
    more = False
    for each in ids[start:]:
        shown = read(each)
        if shown is None:
            continue
        if len(found) == limit:
            more = True
            break
        found.append(shown)
    return {
        "object": "list",
        "data": found,
        "has_more": more,
        "first_id": found[0]["id"] if found else None,
        "last_id": found[-1]["id"] if found else None,
    }
