"""What a job's ``eval_config`` adds to its model's recipe: registered suites, which the recipe's gates then judge."""

from ft_assets.control.registry.default_safety import safety_suite
from ft_assets.records.jobs import Job
from ft_assets.settings.models import OfferedModel
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.shipped_suites import MADE_SAFETY
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.suites.registered import list_suites, suites_of
from ft_resources.errors import BadRecipe
from ft_resources.store import Store
from ft_resources.strict import parse_strict

MMLU = ("mmlu.v1", "mmlu-1000.v1", "mmlu-examples.v1")
"""Suites of MMLU's questions; of those that are registered the first is used."""


def suites_of_job(store: Store, job: Job, model: OfferedModel) -> tuple[str, ...]:
    """The suites that ``job`` is evaluated on beyond those of ``model``'s recipe.

    Raises BadRecipe where MMLU is not registered, and for a model whose results no gate judges.
    """
    asked, added = job.eval_config, list[str]()
    wanted = {"run_mmlu_regression": asked.run_mmlu_regression, "safety_scan": asked.safety_scan}
    if not any(wanted.values()):
        return ()
    recipe = parse_strict(Recipe, {"key": "model.v1", "base": model.base, **model.recipe}, f"model {job.model}")
    if recipe.gates == NO_GATES:
        raise BadRecipe(
            f"results of {job.model} are not judged, so nothing would come of it",
            where=f"eval_config.{next(name for name, value in wanted.items() if value)}",
            remedy="Leave it out, or choose a model with gates.",
        )
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
    return tuple(added)
