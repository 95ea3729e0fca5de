"""Models that can be prompted: the adapters that a name means, and how prompts for them are written."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass

from ft_assets.api.defaults import store_or_default
from ft_assets.control.rollouts.weights import Traffic, Weights, choose, is_within, traffic_of
from ft_assets.control.serving import names
from ft_assets.control.serving.names import no_model as no_model
from ft_assets.settings.answer_format import AnswerFormat
from ft_assets.settings.tenants import load_tenants
from ft_assets.workers.serving.prompts import PromptCache as PromptCache
from ft_assets.workers.serving.prompts import Prompts as Prompts
from ft_assets.workers.templates.thoughts import with_own_thoughts as with_own_thoughts
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.serving.fleet import ServedModel
from ft_resources.store import Store

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class FoundModel:
    """An adapter, and its name on servers."""

    artifact: Artifact
    served: ServedModel


@dataclass(frozen=True, kw_only=True)
class Division:
    """The adapters that answer for a name.

    Args:
        weights: their shares of the traffic; one adapter has all of it where no rollout is open.
        models: by address.
        is_traffic: whether this is a line's traffic, whose outcomes count; else somebody asks for one adapter.
        format: what a valid answer of the line looks like; None where none is graded.
        shadow: percent of the requests that are copied to the first of the adapters, which answers none.
    """

    weights: Weights
    models: Mapping[str, FoundModel]
    is_traffic: bool
    format: AnswerFormat | None = None
    shadow: int = 0

    def choose(self, user: str) -> FoundModel:
        """The adapter that answers ``user``: the same one each time, while a candidate's share rises."""
        return self.models[choose(self.weights, user)]

    def copied_to(self, user: str) -> FoundModel | None:
        """The candidate that also gets the requests of ``user``, for whom production answers; None for no one."""
        candidate, _ = self.weights[0]
        return self.models[candidate] if self.shadow and is_within(candidate, user, self.shadow) else None

    def instead_of(self, model: FoundModel) -> FoundModel | None:
        """The fallback if the servers of ``model`` fail: the adapter in production for a candidate, else none."""
        production = self.models[self.weights[-1][0]]
        return production if production.served != model.served else None


def find_division(name: str, *, tenant: str, store: Store | None = None) -> Division:
    """What ``LINE``, ``LINE@staging`` or ``LINE@DIGEST`` means for a tenant, a rollout's candidate included. A
    candidate that cannot answer has no traffic. Raises as ``find_served_model``."""
    store = store_or_default(store)
    model = find_served_model(name, tenant=tenant, store=store)
    if "@" in name:
        return only_model(model)
    try:
        traffic = traffic_of(store, name)
        models = {address: served_model_at(address, name=name, store=store) for address, _ in traffic.weights}
    except StoreUnavailable:
        raise
    except UserError as error:
        _LOG.warning("%s: production has all traffic, as its rollout cannot be followed: %s", name, error)
        traffic, models = Traffic(weights=()), {}
    if not traffic.weights:
        traffic, models = Traffic(weights=((model.served.address, 100),)), {model.served.address: model}
    return Division(
        weights=traffic.weights, models=models, is_traffic=True, format=_format_of(name), shadow=traffic.shadow
    )


def _format_of(line: str) -> AnswerFormat | None:
    try:
        return load_tenants().settings_of(line).format
    except UserError as error:
        _LOG.warning("the format of answers of %s is not graded: %s", line, error)
        return None


def only_model(model: FoundModel) -> Division:
    """The division of a name that means one adapter, whatever stands where."""
    return Division(weights=((model.served.address, 100),), models={model.served.address: model}, is_traffic=False)


def find_served_model(name: str, *, tenant: str, store: Store | None = None) -> FoundModel:
    """What ``LINE``, ``LINE@staging`` or ``LINE@DIGEST`` means for a tenant. Raises NotFound, also for another
    tenant's, and UserError for what servers cannot hold."""
    return _found(names.find_model(Artifacts(store_or_default(store)), name, tenant=tenant))


def served_model_at(address: str, *, name: str, store: Store | None = None) -> FoundModel:
    """The adapter at ``address``, which the caller calls ``name``. Raises as ``find_served_model``."""
    return _found(names.alive(Artifacts(store_or_default(store)), address, name))


def list_served_models(tenant: str, *, store: Store | None = None) -> dict[str, FoundModel]:
    """The names of a tenant's lines that can be asked now, and what they mean."""
    return {name: _found(each) for name, each in names.list_models(Artifacts(store_or_default(store)), tenant).items()}


def _found(artifact: Artifact) -> FoundModel:
    return FoundModel(artifact=artifact, served=names.served(artifact))
