"""Tenant configuration: one strict YAML file in version control, ``tenants.yaml`` or what ``FT_TENANTS`` names."""

import os
from pathlib import Path

from pydantic import Field

from ft_assets.keys import RecipeKey, check_part
from ft_assets.recipes.models import Settings
from ft_assets.recipes.strict import parse_strict, parse_yaml


class Subscription(Settings):
    """A line that is retrained by itself: when its dataset gets a version, or its recipe's base moves."""

    dataset: str = Field(description="Name of the dataset, without tenant and version.")
    recipe: str = Field(description="Recipe key; where its base moved, the successor is used.")


class Tenant(Settings):
    """One tenant's settings."""

    subscriptions: tuple[Subscription, ...] = Field(default=(), description="Lines to retrain by themselves.")


class TenantsFile(Settings):
    """The whole file."""

    tenants: dict[str, Tenant] = Field(default_factory=dict, description="Settings by tenant name.")
    retrainings_per_day: int = Field(
        default=20, ge=0, description="How many trainings the sensors may submit a day (UTC), all tenants together."
    )


def load_tenants(path: Path | None = None) -> TenantsFile:
    """The tenants file; without one there are no subscriptions. Raises UserError for a file that means nothing."""
    path = path or Path(os.environ.get("FT_TENANTS", "tenants.yaml"))
    if not path.exists():
        return TenantsFile()
    loaded = parse_strict(TenantsFile, parse_yaml(path.read_text(encoding="utf-8"), str(path)), str(path))
    for name, tenant in loaded.tenants.items():
        check_part(name, "tenant name")
        for subscription in tenant.subscriptions:
            check_part(subscription.dataset, "dataset name")
            RecipeKey.parse(subscription.recipe)
    return loaded
