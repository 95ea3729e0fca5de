"""Pages of a list, as OpenAI's clients turn them: ``after`` is the last id of the page before."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from itertools import islice
from typing import Annotated, Any, Literal

from fastapi import Query

from ft_assets.records.sorted_ids import is_id
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
    known: Callable[[str], bool] = is_id,
    ahead: Callable[[Sequence[str], Executor], bool] = lambda ids, readers: False,
    id_in: str = "id",
) -> dict[str, Any]:
    """A page of at most ``limit`` things after ``after``.

    ``ids`` gives those that follow one, all for ""; ``read`` gives a thing by its id, None to leave it out. Ids are
    without ``prefix``, which ``after`` has, and things have theirs in ``id_in``. ``ahead`` may look at what ``read``
    will need of several, all at once; it says whether that is all of it. What ``after`` names may have gone since the
    page before was turned. Raises UserError for one that is not ``known`` as an id of such things.
    """
    last = after.removeprefix(prefix)
    if last and not known(last):
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
        "first_id": found[0][id_in] if found else None,
        "last_id": found[-1][id_in] if found else None,
    }


def beyond(ids: Sequence[str]) -> Callable[[str], Sequence[str]]:
    """What ``page_of`` wants of a short list, the newest first: its ids after one. Of one that has gone those after its
    place, by the number that it ends with: steps and attempts are numbered."""

    def following(last: str) -> Sequence[str]:
        if last in ids or not last:
            return ids[ids.index(last) + 1 :] if last else ids
        stem, _, number = last.rpartition("-")
        tails = {place: each.rpartition("-")[2] for place, each in enumerate(ids) if each.rpartition("-")[0] == stem}
        alike = {place: int(tail) for place, tail in tails.items() if tail.isdecimal() and number.isdecimal()}
        older = [place for place, each in alike.items() if each < int(number)]
        return ids[min(older, default=max(alike, default=len(ids) - 1) + 1) :]

    return following
