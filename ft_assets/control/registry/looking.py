"""Check many sources without a long wait for any of them: a check may outlast the call that began it."""

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, wait
from threading import Thread
from typing import Generic, TypeVar

from ft_assets.records.sources import Watch
from ft_resources.errors import UserError

T = TypeVar("T")

_AT_ONCE = 8
# A database may count for minutes, or a tenant's query may sleep: the others wait no longer than this.
_PATIENCE_S = 5.0


class Looks(Generic[T]):
    """Checks in progress. The next call joins an unfinished one and never begins it twice.

    Plain threads, as an executor's would keep the process from ending.
    """

    def __init__(self) -> None:
        self._under_way: dict[tuple[str, str], tuple[Watch, Future[T]]] = {}

    def at(
        self, watches: Sequence[Watch], look: Callable[[Watch], T], *, store: str, seconds: float
    ) -> Iterator[tuple[Watch, T | UserError | TimeoutError]]:
        """The result of ``look`` for each of ``watches`` reached in ``seconds``; TimeoutError for one still running.

        Any failure becomes a UserError: a tenant's query can make a driver raise anything.
        """
        began = time.monotonic()
        for first in range(0, len(watches), _AT_ONCE):
            if time.monotonic() - began >= seconds:
                return
            batch = watches[first : first + _AT_ONCE]
            futures = [self._begun(watch, look, store) for watch in batch]
            wait(futures, timeout=_PATIENCE_S)
            for watch, future in zip(batch, futures, strict=True):
                if not future.done():
                    yield watch, TimeoutError()
                    continue
                del self._under_way[store, watch.dataset]
                found: T | UserError = _outcome(future)
                yield watch, found

    def _begun(self, watch: Watch, look: Callable[[Watch], T], store: str) -> Future[T]:
        known = self._under_way.get((store, watch.dataset))
        if known is not None and known[0] == watch:
            return known[1]
        future: Future[T] = Future()

        def run() -> None:
            try:
                future.set_result(look(watch))
            except Exception as error:
                future.set_exception(error)

        self._under_way[store, watch.dataset] = watch, future
        Thread(target=run, name=f"look-{watch.dataset}", daemon=True).start()
        return future


def _outcome(future: Future[T]) -> T | UserError:
    error = future.exception()
    if error is None:
        return future.result()
    if isinstance(error, UserError):
        return error
    # Never an unknown error's text: it may contain the connection's secrets.
    return UserError(
        f"the source cannot be read ({type(error).__name__})",
        where="source",
        remedy="Run `ft dataset pull`, which shows where this happens.",
    )
