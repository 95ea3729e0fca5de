"""Which bases and methods a tenant may train with. What is deprecated is refused to new work; running work finishes."""

from collections.abc import Iterable

from ft_assets.recipes.models import Recipe
from ft_assets.recipes.register import StoredRecipe
from ft_assets.tenants import TenantsFile
from ft_resources.errors import UserError

_WHERE = "tenants.yaml"


class NotAllowed(UserError):
    """A base or method that this tenant, or nobody any more, may start new work with."""


def restricted(tenants: TenantsFile, tenant: str) -> bool:
    """Whether there is anything that the tenant may not use."""
    tier = tenants.tier_of(tenant)
    limits = (tier.allowed_bases, tier.allowed_methods)
    return bool(tenants.deprecated_bases or tenants.deprecated_methods) or any(each is not None for each in limits)


def require_allowed(tenants: TenantsFile, tenant: str, stored: StoredRecipe) -> None:
    """Raise NotAllowed where the tenant's tier lacks the recipe's base or method, or the platform gave it up."""
    recipe, tier = stored.recipe, tenants.tier_of(tenant)
    name = f"{recipe.method}/{recipe.variant}"
    if _is_method(recipe, tenants.deprecated_methods):
        raise NotAllowed(
            f"{name} is deprecated, and nothing new is trained with it",
            where=f"{_WHERE}: deprecated_methods",
            remedy="Use a recipe with another method; what is under way goes on.",
        )
    if tier.allowed_methods is not None and not _is_method(recipe, tier.allowed_methods):
        raise NotAllowed(
            f"{tenant}'s tier trains with {_listed(tier.allowed_methods)}, and this recipe with {name}",
            where=f"{_WHERE}: allowed_methods",
            remedy="Use a recipe with an allowed method, or ask the platform for another tier.",
        )
    names, base = _base_names(stored), f"{stored.lock.source}@{stored.lock.revision}"
    if names & set(tenants.deprecated_bases):
        raise NotAllowed(
            f"the base {base} is deprecated, and nothing new is trained on it",
            where=f"{_WHERE}: deprecated_bases",
            remedy="Use a recipe with another base; what is under way goes on.",
        )
    if tier.allowed_bases is not None and not names & set(tier.allowed_bases):
        raise NotAllowed(
            f"{tenant}'s tier trains on {_listed(tier.allowed_bases)}, and this recipe on {base}",
            where=f"{_WHERE}: allowed_bases",
            remedy="Use a recipe with an allowed base, or ask the platform for another tier.",
        )


def _is_method(recipe: Recipe, named: Iterable[str]) -> bool:
    return bool({recipe.method, recipe.variant, f"{recipe.method}/{recipe.variant}"} & set(named))


def _base_names(stored: StoredRecipe) -> set[str]:
    """What a tenants file may call the recipe's base."""
    lock = stored.lock
    return {lock.source, f"{lock.source}@{lock.revision}", f"sha256:{lock.digest}"}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
