"""``/healthz`` and ``/readyz``: whether the server lives, and whether it can do its work. Neither needs a key.

Nobody learns from them where anything is, or how it refused; the log has that. Whoever asks often makes no more work
than one look every few seconds.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from fastapi import FastAPI, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from ft_assets.api import Access
from ft_resources.errors import NoStore
from ft_resources.store import Store
from ft_resources.store_layout import MARKER

_LOG = logging.getLogger(__name__)
_LIMIT_S = 3.0
_KEEP_S = 2.0


class Readiness:
    """Whether each of ``checks`` returns within ``limit_s`` seconds. What one said counts for ``keep_s`` seconds.

    A check that hangs is not begun a second time, so that it holds one thread and no more.
    """

    def __init__(
        self, checks: Mapping[str, Callable[[], object]], *, limit_s: float = _LIMIT_S, keep_s: float = _KEEP_S
    ) -> None:
        self._checks, self._limit_s, self._keep_s = checks, limit_s, keep_s
        # Of its own: where all other threads are busy with requests, the server is ready all the same.
        self._pool = ThreadPoolExecutor(len(checks), thread_name_prefix="readiness")
        self._looks: dict[str, asyncio.Future[_Look]] = {}

    async def missing(self) -> list[str]:
        """The names of the checks that failed or did not return in time."""
        looks = {name: self._look(name) for name in self._checks}
        await asyncio.wait(looks.values(), timeout=self._limit_s)
        return [name for name, look in looks.items() if not look.done() or not look.result().well]

    def _look(self, name: str) -> "asyncio.Future[_Look]":
        """The latest look at ``name``, or a new one where that is too old."""
        latest = self._looks.get(name)
        if latest is None or (latest.done() and time.monotonic() - latest.result().at > self._keep_s):
            latest = self._looks[name] = asyncio.get_running_loop().run_in_executor(self._pool, self._check, name)
        return latest

    def _check(self, name: str) -> "_Look":
        try:
            self._checks[name]()
        except Exception as error:
            _LOG.warning("not ready: %s: %s", name, error)
            return _Look(at=time.monotonic(), well=False)
        return _Look(at=time.monotonic(), well=True)


@dataclass(frozen=True, kw_only=True)
class _Look:
    """What a check said; ``at`` in seconds of the monotonic clock."""

    at: float
    well: bool


def add_health(app: FastAPI, store: Store, access: Access) -> None:
    """Add ``/healthz`` and ``/readyz``, which asks ``store`` and the access database, to ``app``."""

    def check_store() -> None:
        if not store.exists(MARKER):
            raise NoStore(store.url)

    readiness = Readiness({"store": check_store, "database": access.check})

    async def ready(_: Request) -> Response:
        missing = await readiness.missing()
        return JSONResponse({"ready": not missing, "missing": missing}, 503 if missing else 200)

    app.add_route("/healthz", _lives, include_in_schema=False)
    app.add_route("/readyz", ready, include_in_schema=False)


async def _lives(_: Request) -> Response:
    return PlainTextResponse("ok\n")
