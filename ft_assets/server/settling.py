"""Settles jobs beside the requests: looks at their files, and makes datasets, recipes and submissions of them."""

import logging
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from ft_assets import api
from ft_assets.api import Job, Orchestrator
from ft_resources.errors import UserError
from ft_resources.launchers.base import Launcher
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)
# A job that is older waits because the server that took it is gone. Two servers at one job do the work twice, and
# record it once.
_LEFT_S = 120.0
_LOOK_EVERY_S = 30.0
# Each copies a file to scratch and reads it whole.
_AT_ONCE = 2
# An error of ours may pass, and must not be tried for ever.
_TRIES = 3


class Settling:
    """A few threads that settle jobs, and one that finds those which other servers left."""

    def __init__(
        self, store: Store, *, launcher: Launcher | None = None, orchestrator: Orchestrator | None = None
    ) -> None:
        self._store, self._launcher, self._orchestrator = store, launcher, orchestrator
        self._failures: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="settle")
        self._under_way: set[str] = set()
        self._stop = threading.Event()
        self._looking = threading.Thread(target=self._look, name="unsettled-jobs", daemon=True)

    def start(self) -> None:
        self._looking.start()

    def stop(self) -> None:
        """Let those under way end, and begin no other."""
        self._stop.set()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def add(self, job: Job) -> None:
        """Settle a job soon, once."""
        if job.id not in self._under_way:
            self._under_way.add(job.id)
            self._pool.submit(self._settle, job)

    def _settle(self, job: Job) -> None:
        try:
            api.settle_job(job, store=self._store, launcher=self._launcher, orchestrator=self._orchestrator)
        except UserError as error:
            _LOG.warning("job ftjob-%s waits: %s", job.id, error)
        except Exception:
            _LOG.exception("job ftjob-%s could not be settled", job.id)
            self._failures[job.id] += 1
            if self._failures[job.id] == _TRIES:
                api.give_up(job, store=self._store)
        finally:
            self._under_way.discard(job.id)

    def _look(self) -> None:
        # At the start nobody else is at what an earlier server left, if this is the only one.
        while not self._stop.wait(_LOOK_EVERY_S):
            try:
                for job in api.unsettled_jobs(store=self._store, older_than_s=_LEFT_S):
                    self.add(job)
            except Exception:
                _LOG.exception("unsettled jobs cannot be listed")
