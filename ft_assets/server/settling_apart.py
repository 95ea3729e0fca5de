"""Settles jobs in processes of their own, which requests go before: a second of Python's work keeps nobody waiting."""

import multiprocessing
import os
import signal
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

from ft_assets import api
from ft_assets.api import Job, Orchestrator
from ft_resources.store import Store
from ft_resources.store_layout import Layout

_LESS_URGENT = 5
_LOOK_EVERY_S = 1.0


class SettlingApart:
    """``at_once`` processes; they start with the first job, and end with this one."""

    def __init__(self, store: Store, at_once: int) -> None:
        self._store, self._at_once = store, at_once
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def settle(self, job: Job) -> None:
        """``api.settle_job``. Raises as it does, and BrokenProcessPool where the process ended, as one does that takes
        too much memory; the next job has a new one."""
        pool = self._started()
        try:
            pool.submit(_settle, job).result()
        except BrokenProcessPool:
            with self._lock:
                if self._pool is pool:
                    self._pool = None
            raise

    def stop(self) -> None:
        """Let jobs under way end."""
        with self._lock:
            if self._pool is not None:
                self._pool.shutdown(wait=True, cancel_futures=True)

    def _started(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = ProcessPoolExecutor(
                    self._at_once,
                    # A fork would copy locks that other threads of the server hold.
                    mp_context=multiprocessing.get_context("spawn"),
                    initializer=_prepare,
                    initargs=(self._store.url, self._store.layout, os.getpid()),
                )
            return self._pool


_STORE: Store
_ORCHESTRATOR: Orchestrator


def _prepare(store_url: str, layout: Layout, server: int) -> None:
    global _STORE, _ORCHESTRATOR
    # Ctrl-C in a terminal reaches it too; the server ends it when its jobs are done.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_LESS_URGENT)
    threading.Thread(target=_end_with, args=(server,), daemon=True).start()
    _STORE, _ORCHESTRATOR = Store(store_url, layout=layout), api.orchestrator_or_default(None)
    api.load_settling()


def _settle(job: Job) -> None:
    api.settle_job(job, store=_STORE, orchestrator=_ORCHESTRATOR)


def _end_with(server: int) -> None:
    """End when the server is gone, however it ended."""
    while os.getppid() == server:
        time.sleep(_LOOK_EVERY_S)
    os._exit(1)
