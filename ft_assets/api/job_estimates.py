"""The estimate of a job before it is created."""

from collections.abc import Mapping
from typing import Any

from ft_assets.api.defaults import store_or_default
from ft_assets.api.estimates import Estimate, estimate
from ft_assets.api.jobs import configured, dataset_of, offered_models, recipe_of
from ft_assets.control.jobs.create import planned_job
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.submissions.submit import check_gates
from ft_assets.settings.models import ModelsFile
from ft_assets.settings.tenants import TenantsFile, load_tenants
from ft_resources.store import Store


def estimate_job(
    tenant: str,
    asked: Mapping[str, Any],
    *,
    actor: str,
    store: Store | None = None,
    tenants: TenantsFile | None = None,
    models: ModelsFile | None = None,
) -> Estimate:
    """The estimate of a job with the fields ``asked``, as ``create_job`` takes them.

    Its file becomes the dataset version, and its model's recipe is registered, as for the job itself, which then finds
    both. Raises UserError for what is wrong with fields, rows, recipe or gates.
    """
    store, models = store_or_default(store), models or offered_models()
    tenants = configured(tenants, load_tenants)
    job = planned_job(store, models, tenant, asked, actor=actor)
    recipe = job.recipe or recipe_of(store, job, tenants, models)
    check_gates(store, get_recipe(store, recipe).recipe, job.gates)
    return estimate(dataset_of(store, job, tenants), recipe, gates=job.gates, store=store, tenants=tenants)
