"""Settles jobs beside the requests: looks at their files, and makes datasets, recipes and submissions of them."""

import logging
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from ft_assets import api
from ft_assets.api import Job
from ft_resources.errors import UserError
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)
# A job that is older waits because the server that took it is gone. Two servers at one job do the work twice, and
# record it once.
_LEFT_S = 120.0
_LOOK_EVERY_S = 30.0
_SWEEP_EVERY_S = 3600.0
# Each copies a file to scratch and reads it whole.
AT_ONCE = 2
# An error of ours may pass, and must not be tried for ever.
_TRIES = 3


class Settling:
    """A few threads that settle jobs, and one that finds those which other servers left, and removes expired files.

    ``settle`` is ``api.settle_job``, or has it done elsewhere.
    """

    def __init__(self, store: Store, settle: Callable[[Job], object]) -> None:
        self._store, self._settle_job = store, settle
        self._failures: Counter[str] = Counter()
        self._pool = ThreadPoolExecutor(AT_ONCE, thread_name_prefix="settle")
        self._lock = threading.Lock()
        self._under_way: set[str] = set()
        self._waiting: dict[str, deque[Job]] = {}
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
        with self._lock:
            if job.id in self._under_way:
                return
            self._under_way.add(job.id)
            self._waiting.setdefault(job.tenant, deque()).append(job)
        self._pool.submit(self._settle_next)

    def _settle_next(self) -> None:
        """Settle a job of the tenant that waits longest for its turn: a thousand jobs of one keep no other waiting."""
        with self._lock:
            tenant = next(iter(self._waiting))
            jobs = self._waiting.pop(tenant)
            job = jobs.popleft()
            if jobs:
                self._waiting[tenant] = jobs
        self._settle(job)

    def _settle(self, job: Job) -> None:
        try:
            self._settle_job(job)
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
        sweep_at = 0.0
        while not self._stop.wait(_LOOK_EVERY_S):
            try:
                for job in api.unsettled_jobs(store=self._store, older_than_s=_LEFT_S):
                    self.add(job)
                if time.monotonic() >= sweep_at:
                    sweep_at = time.monotonic() + _SWEEP_EVERY_S
                    api.remove_expired_files(store=self._store)
                    api.end_expired_uploads(store=self._store)
            except Exception:
                _LOG.exception("unsettled jobs cannot be listed, or expired files not be removed")
