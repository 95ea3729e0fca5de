"""Which bases and methods a tenant may use. Deprecated ones are refused for new work; running work finishes."""

from collections.abc import Iterable

from ft_assets.control.recipes.stored import StoredRecipe
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import TenantsFile
from ft_resources.errors import UserError

_WHERE = "tenants.yaml"


class NotAllowed(UserError):
    """A base or method that is not in the tenant's tier, or is deprecated for everyone."""


def restricted(tenants: TenantsFile, tenant: str) -> bool:
    """Whether any restriction applies to the tenant."""
    tier = tenants.tier_of(tenant)
    limits = (tier.allowed_bases, tier.allowed_methods)
    return bool(tenants.deprecated_bases or tenants.deprecated_methods) or any(each is not None for each in limits)


def require_allowed(tenants: TenantsFile, tenant: str, stored: StoredRecipe) -> None:
    """Raise NotAllowed if the tenant's tier lacks the recipe's base or method, or if it is deprecated."""
    recipe, tier = stored.recipe, tenants.tier_of(tenant)
    name = f"{recipe.method}/{recipe.variant}"
    if _is_method(recipe, tenants.deprecated_methods):
        raise NotAllowed(
            f"{name} is deprecated and not allowed for new trainings",
            where=f"{_WHERE}: deprecated_methods",
            remedy="Use a recipe with another method. Running trainings continue.",
        )
    if tier.allowed_methods is not None and not _is_method(recipe, tier.allowed_methods):
        raise NotAllowed(
            f"{tenant}'s tier allows {_listed(tier.allowed_methods)}; this recipe uses {name}",
            where=f"{_WHERE}: allowed_methods",
            remedy="Use a recipe with an allowed method, or ask the platform for another tier.",
        )
    names, base = _base_names(stored), f"{stored.lock.source}@{stored.lock.revision}"
    if names & set(tenants.deprecated_bases):
        raise NotAllowed(
            f"the base {base} is deprecated and not allowed for new trainings",
            where=f"{_WHERE}: deprecated_bases",
            remedy="Use a recipe with another base. Running trainings continue.",
        )
    if tier.allowed_bases is not None and not names & set(tier.allowed_bases):
        raise NotAllowed(
            f"{tenant}'s tier allows the bases {_listed(tier.allowed_bases)}; this recipe uses {base}",
            where=f"{_WHERE}: allowed_bases",
            remedy="Use a recipe with an allowed base, or ask the platform for another tier.",
        )


def _is_method(recipe: Recipe, named: Iterable[str]) -> bool:
    return bool({recipe.method, recipe.variant, f"{recipe.method}/{recipe.variant}"} & set(named))


def _base_names(stored: StoredRecipe) -> set[str]:
    """Names that a tenants file may use for the recipe's base."""
    lock = stored.lock
    return {lock.source, f"{lock.source}@{lock.revision}", f"sha256:{lock.digest}"}


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names) or "nothing"
