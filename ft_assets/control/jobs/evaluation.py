"""Additions of a job's ``eval_config`` to its model's recipe: registered suites, which the recipe's gates then judge. A
model without gates gets the default ones, and a general suite for them."""

from ft_assets.control.registry.default_safety import safety_suite
from ft_assets.records.jobs import Job
from ft_assets.settings.models import OfferedModel
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.shipped_suites import BOOKS, MADE_SAFETY
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.suites.registered import list_suites, suites_of
from ft_resources.errors import BadRecipe
from ft_resources.store import Store
from ft_resources.strict import parse_strict

MMLU = ("mmlu.v1", "mmlu-1000.v1", "mmlu-examples.v1")
"""Suites of MMLU's questions; of those that are registered the first is used."""


def suites_of_job(store: Store, job: Job, model: OfferedModel) -> tuple[str, ...]:
    """The suites that ``job`` is evaluated on beyond those of ``model``'s recipe.

    Raises BadRecipe where MMLU is not registered.
    """
    asked, added = job.eval_config, list[str]()
    if not (asked.run_mmlu_regression or asked.safety_scan):
        return ()
    recipe = parse_strict(Recipe, {"key": "model.v1", "base": model.base, **model.recipe}, f"model {job.model}")
    known, own = list_suites(store), recipe.evaluation.suites
    if asked.run_mmlu_regression and not set(own) & set(MMLU):
        installed = next((key for key in MMLU if key in known), "")
        if not installed:
            raise BadRecipe(
                "MMLU is not installed",
                where="eval_config.run_mmlu_regression",
                remedy="Leave it out, or have the platform's operator run: ft suite install mmlu",
            )
        added.append(installed)
    if asked.safety_scan and MADE_SAFETY not in own and not suites_of(store, set(own) & set(known), "safety"):
        added.append(safety_suite(store))
    if recipe.gates == NO_GATES and not own and not asked.run_mmlu_regression:
        added.append(BOOKS)
    return tuple(added)
