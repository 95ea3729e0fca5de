"""Register a recipe's YAML file."""

from dataclasses import replace
from pathlib import Path

from ft_assets.api.defaults import (
    Orchestrator,
    actor_or_user,
    orchestrator_or_default,
    store_or_default,
    tenants_or_default,
)
from ft_assets.control.lines.lines import address_at
from ft_assets.control.lines.walls import walls_of_recipe
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.registry import register
from ft_assets.control.registry.register import RegisteredRecipe
from ft_assets.control.sweeps.trial_retirement import is_retired
from ft_assets.settings.tenants import TenantsFile
from ft_resources.artifacts import Artifacts
from ft_resources.hub import Hub
from ft_resources.store import Store


def register_recipe(
    file: Path | str,
    *,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    actor: str = "",
    orchestrator: Orchestrator | None = None,
    hub: Hub | None = None,
) -> RegisteredRecipe:
    """Register a recipe's YAML file, and lock the revision and content of its base model, which ``hub`` looks up; the
    Hugging Face Hub with the token of ``HF_TOKEN`` where not given.

    ``walls`` of the result are all reasons why production would refuse what is made with it.
    Registering the same again changes nothing; ``created`` is False then. Raises BadRecipe with every wrong field,
    also where the key is taken by other content; BadBase, HubUnavailable, StoreUnavailable. Nothing is written then.
    """
    store, shown = store_or_default(store, create=True), orchestrator_or_default(orchestrator)
    tenants = tenants_or_default(tenants)
    registered = register.register_recipe(
        store,
        Path(file),
        actor=actor_or_user(actor),
        tenants=tenants,
        hub=hub,
        at_stage=address_at,
    )
    trials = () if is_retired(store, registered.key) else registered.trials
    for key in (registered.key, *trials):
        shown.show_keys(recipe=key)
    return replace(registered, walls=walls_of_recipe(Artifacts(store), tenants, get_recipe(store, registered.key)))
