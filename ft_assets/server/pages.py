"""Pages of a list, as OpenAI's clients turn them: ``after`` is the last id of the page before."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import Query

from ft_resources.errors import UserError

_READERS, _MOST_AT_ONCE = 16, 100
Limit = Annotated[int, Query(ge=1, le=10_000)]
After = Annotated[str, Query(max_length=200)]
Order = Literal["asc", "desc"]


def page_of(
    ids: Callable[[str], Iterable[str]],
    read: Callable[[str], dict[str, Any] | None],
    *,
    prefix: str,
    after: str,
    limit: int,
    ahead: Callable[[Sequence[str], Executor], bool] = lambda ids, readers: False,
) -> dict[str, Any]:
    """A page of at most ``limit`` things after ``after``.

    ``ids`` gives those that follow one, all for ""; ``read`` gives a thing by its id, None to leave it out. Ids are
    without ``prefix``, which ``after`` has. ``ahead`` may look at what ``read`` will need of several, all at once;
    it says whether that is all of it. Raises UserError for an ``after`` that is no thing of the list.
    """
    last = after.removeprefix(prefix)
    if last and read(last) is None:
        raise UserError(f"there is no {after!r} in this list", where="after", remedy="Start without it.")
    found: list[dict[str, Any]] = []
    following = iter(ids(last))
    with ThreadPoolExecutor(_READERS) as readers:
        # As many at once as are still wanted, and one to know whether there are more.
        while len(found) <= limit and (some := list(islice(following, min(limit + 1 - len(found), _MOST_AT_ONCE)))):
            # Without waiting for anything, threads would only take Python's lock from one another.
            each = map if ahead(some, readers) else readers.map
            found += [shown for shown in each(read, some) if shown is not None]
    more, found = len(found) > limit, found[:limit]
    return {
        "object": "list",
        "data": found,
        "has_more": more,
        "first_id": found[0]["id"] if found else None,
        "last_id": found[-1]["id"] if found else None,
    }


def beyond(ids: Sequence[str]) -> Callable[[str], Sequence[str]]:
    """What ``page_of`` wants of a short list: its ids after one."""
    return lambda last: ids[ids.index(last) + 1 :] if last else ids
