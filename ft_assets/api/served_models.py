"""Models that can be asked: what a name means, and how a prompt for it is written."""

from dataclasses import dataclass

from ft_assets.api.defaults import store_or_default
from ft_assets.control.serving import names
from ft_assets.control.serving.names import no_model as no_model
from ft_assets.workers.serving.prompts import PromptCache as PromptCache
from ft_assets.workers.serving.prompts import Prompts as Prompts
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.serving.fleet import ServedModel
from ft_resources.store import Store


@dataclass(frozen=True, kw_only=True)
class FoundModel:
    """An adapter, and what servers know it by."""

    artifact: Artifact
    served: ServedModel


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
