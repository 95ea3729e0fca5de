"""Embedded servers: one process on this machine for each base, started when it is wanted and restarted when it dies."""

import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import CorruptArtifact, UserError, first_line
from ft_resources.file_cache import FileCache
from ft_resources.serving.engine_process import EngineProcess
from ft_resources.serving.servers import Base, ServerState
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)
_FIRST_WAIT_S, _LONGEST_WAIT_S = 1.0, 60.0
# A process that answered for so long did not die of its start parameters.
_STEADY_S = 60.0
# Loading a large base from a slow disk takes minutes; a process that has answered before has no such excuse.
_START_S, _SILENT_S = 900.0, 30.0


class EmbeddedServers:
    """At most ``most`` processes. ``folder`` holds their logs.

    An unwanted base keeps its place until a wanted one needs it: it may be wanted again.
    """

    def __init__(self, store: Store, folder: Path, *, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._folder, self._most, self._clock = store, folder, most, clock
        self._scratch = Path(tempfile.mkdtemp(prefix="ft-serving-"))
        self._started: dict[str, _Started] = {}

    def provide(self, bases: Sequence[Base]) -> Sequence[ServerState]:
        """As ``Servers.provide``."""
        placed, left = bases[: self._most], bases[self._most :]
        names = {base.digest for base in placed}
        for digest in [each for each in self._started if each not in names]:
            if len(self._started.keys() | names) > self._most:
                self._started.pop(digest).end()
        for base in placed:
            if base.digest not in self._started:
                self._started[base.digest] = _Started(base, self._fetched, self._folder, self._scratch, self._clock)
        states = [each.tend() for each in self._started.values()]
        full = f"{self._most} bases are served here already; ft serve --embedded says how many may be"
        return [*states, *(ServerState(name=_name(base), base=base.digest, trouble=full) for base in left)]

    def close(self) -> None:
        """As ``Servers.close``."""
        while self._started:
            self._started.popitem()[1].end()
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _fetched(self, base: Base, cache: FileCache, view: Path) -> "Future[Path]":
        """The folder of a base's files, soon."""
        found: Future[Path] = Future()

        def fetch() -> Path:
            artifact = Artifacts(self._store).get(Address.parse(base.address))
            if artifact.digest != base.digest:
                raise CorruptArtifact(
                    f"its content is {artifact.digest[:16]}, and adapters were trained on {base.digest[:16]}",
                    where=base.address,
                    remedy="Restore the manifest from the bucket's versions or a backup.",
                )
            return cache.folder(artifact, view)

        def settle() -> None:
            try:
                found.set_result(fetch())
            except Exception as error:
                found.set_exception(error)

        # Not from a pool: the exit of this process would wait for the download of a base.
        threading.Thread(target=settle, name=f"fetch-{_name(base)}", daemon=True).start()
        return found


class _Started:
    """The process of one base: fetches it, starts the server, checks its health, restarts it."""

    def __init__(
        self,
        base: Base,
        fetch: Callable[[Base, FileCache, Path], "Future[Path]"],
        logs: Path,
        scratch: Path,
        clock: Callable[[], float],
    ) -> None:
        self._base, self._fetch, self._clock = base, fetch, clock
        self._log = logs / f"{_name(base)}.log"
        self._view = scratch / base.digest
        # Its locks keep the files while they are served.
        self._cache = FileCache.of_machine(scratch)
        self._folder: Future[Path] | None = None
        self._process: EngineProcess | None = None
        self._began = self._answered = self._next = clock()
        self._ready = False
        self._failures = 0
        self._trouble = ""

    def tend(self) -> ServerState:
        """Check it once."""
        now = self._clock()
        if self._process is None:
            self._begin(now)
        else:
            self._look(self._process, now)
        return ServerState(
            name=_name(self._base),
            base=self._base.digest,
            endpoint=self._process.endpoint if self._process is not None and self._ready else None,
            trouble=self._trouble,
        )

    def end(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process, self._ready = None, False
        self._cache.close()

    def _begin(self, now: float) -> None:
        if self._folder is None:
            if now < self._next:
                return
            self._folder = self._fetch(self._base, self._cache, self._view)
        if not self._folder.done():
            return
        try:
            folder = self._folder.result()
            self._process = EngineProcess(
                _name(self._base), folder, base=self._base.digest, model=_model(self._base), log=self._log
            )
            self._began = self._answered = now
        except (UserError, OSError, KeyError) as error:
            self._failed(error.what if isinstance(error, UserError) else first_line(error), now)

    def _look(self, process: EngineProcess, now: float) -> None:
        ended = process.ended
        healthy = not ended and process.healthy()
        if healthy:
            if not self._ready:
                _LOG.info("%s answers after %.0f s", _name(self._base), now - self._began)
            self._ready, self._answered, self._trouble = True, now, ""
            if now - self._began > _STEADY_S:
                self._failures = 0
        elif ended or now - self._answered > (_SILENT_S if self._ready else _START_S):
            process.end()
            self._process = None
            self._failed(ended or f"it did not answer for {now - self._answered:.0f} s", now)

    def _failed(self, why: str, now: float) -> None:
        self._folder, self._ready = None, False
        wait = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**self._failures)
        self._failures += 1
        self._next = now + wait
        self._trouble = f"{why}; it starts again in {wait:.0f} s"
        _LOG.warning("%s: %s (%s)", _name(self._base), self._trouble, self._log)


def _name(base: Base) -> str:
    return f"embedded-{base.digest[:12]}"


def _model(base: Base) -> str:
    return base.source or base.digest
