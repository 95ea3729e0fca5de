"""Which adapters a tenant's name of a model means, looked up once in a while and not for each request."""

import logging
import time
from collections import OrderedDict
from dataclasses import dataclass
from threading import Lock

from ft_assets import api
from ft_assets.api import Division, JobState
from ft_assets.server.names import job_of_model, model_name
from ft_resources.errors import DatabaseUnavailable, NotFound, StoreUnavailable
from ft_resources.launchers.base import Launcher
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)
FRESH_S = 2.0
"""A promotion is followed at least so soon."""
_WITHOUT_STORE_S = 900.0


@dataclass(frozen=True, slots=True)
class _Known:
    division: Division
    at: float


class ModelsAsked:
    """What names mean, for ``FRESH_S`` seconds; while the store does not answer, what they meant last, for 15 minutes.

    At most ``most`` names are kept; those asked longest ago go.
    """

    def __init__(self, store: Store, launcher: Launcher | None, most: int = 4096) -> None:
        self._store, self._launcher, self._most = store, launcher, most
        self._known: OrderedDict[tuple[str, str], _Known] = OrderedDict()
        self._lock = Lock()

    def find(self, tenant: str, name: str) -> Division:
        """What ``name`` means for ``tenant``. Raises NotFound, also for what is another tenant's."""
        key = (tenant, name)
        known, now = self._known.get(key), time.monotonic()
        if known is not None and now - known.at < FRESH_S:
            return known.division
        try:
            found = self._look(tenant, name)
        except NotFound:
            with self._lock:
                self._known.pop(key, None)
            raise
        except (StoreUnavailable, DatabaseUnavailable) as error:
            if known is None or now - known.at > _WITHOUT_STORE_S:
                raise
            _LOG.warning("%s is answered by what it meant before: %s", name, error)
            return known.division
        with self._lock:
            self._known[key] = _Known(found, now)
            self._known.move_to_end(key)
            while len(self._known) > self._most:
                self._known.popitem(last=False)
        return found

    def _look(self, tenant: str, name: str) -> Division:
        if not job_of_model(name):
            return api.find_division(name, tenant=tenant, store=self._store)
        state = made_by_job(tenant, name, store=self._store, launcher=self._launcher)
        assert state.outcome is not None
        return api.only_model(api.served_model_at(state.outcome.adapter, name=name, store=self._store))


def made_by_job(tenant: str, name: str, *, store: Store, launcher: Launcher | None) -> JobState:
    """The job that made a model of the tenant. Raises NotFound, also for another tenant's and a deleted one."""
    try:
        state = api.job_state(tenant, job_of_model(name), store=store, launcher=launcher)
    except NotFound:
        raise api.no_model(name) from None
    if model_name(state) != name or api.model_is_deleted(state, store=store):
        raise api.no_model(name)
    return state
