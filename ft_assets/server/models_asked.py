"""Which adapters a tenant's name of a model means, looked up once in a while and not for each request."""

import time
from collections.abc import Callable

from ft_assets import api
from ft_assets.api import Division, JobState
from ft_assets.server.names import job_of_model, model_name
from ft_assets.server.remembered import Remembered
from ft_resources.errors import NotFound
from ft_resources.launchers.base import Launcher
from ft_resources.store import Store


class ModelsAsked:
    """What names mean, and which tenants were not erased, as ``Remembered`` keeps them."""

    def __init__(self, store: Store, launcher: Launcher | None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._launcher = store, launcher
        self._models = Remembered(self._look, clock=clock)
        self._tenants = Remembered(self._require_not_erased, clock=clock)

    def close(self) -> None:
        """Begin no other look."""
        self._models.close()
        self._tenants.close()

    async def find(self, tenant: str, name: str) -> Division:
        """What ``name`` means for ``tenant``. Raises NotFound, also for what is another tenant's."""
        return await self._models.find((tenant, name))

    async def require_not_erased(self, tenant: str) -> None:
        """Raise NotIdentified where ``tenant`` was erased."""
        await self._tenants.find(tenant)

    def _look(self, asked: tuple[str, str]) -> Division:
        tenant, name = asked
        if name in api.offered_models().models:
            what = f"{name!r} is a base for fine-tuning and does not answer requests"
            raise NotFound(what, where="model", remedy="Use the fine_tuned_model of a job.")
        if not job_of_model(name):
            return api.find_division(name, tenant=tenant, store=self._store)
        state = made_by_job(tenant, name, store=self._store, launcher=self._launcher)
        assert state.outcome is not None
        return api.only_model(api.served_model_at(state.outcome.adapter, name=name, store=self._store))

    def _require_not_erased(self, tenant: str) -> None:
        api.require_not_erased(tenant, store=self._store)


def made_by_job(tenant: str, name: str, *, store: Store, launcher: Launcher | None) -> JobState:
    """The job that made a model of the tenant. Raises NotFound, also for another tenant's and a deleted one."""
    try:
        state = api.job_state(tenant, job_of_model(name), store=store, launcher=launcher)
    except NotFound:
        raise api.no_model(name) from None
    if model_name(state) != name or api.model_is_deleted(state, store=store):
        raise api.no_model(name)
    return state
