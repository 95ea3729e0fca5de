"""What a job's ``eval_config`` adds to its model's recipe: registered suites, which the recipe's gates then judge."""

from ft_assets.records.jobs import Job
from ft_assets.settings.models import OfferedModel
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.suites.registered import items_of, list_suites, suites_of
from ft_resources.errors import BadRecipe
from ft_resources.store import Store
from ft_resources.strict import parse_strict

MMLU = ("mmlu.v1", "mmlu-1000.v1", "mmlu-examples.v1")
"""Suites of MMLU's questions; of those that are registered the first is used."""


def suites_of_job(store: Store, job: Job, model: OfferedModel) -> tuple[str, ...]:
    """The suites that ``job`` is evaluated on beyond those of ``model``'s recipe.

    Raises BadRecipe where none of the kind is registered, and for a model whose results no gate judges.
    """
    asked, added = job.eval_config, list[str]()
    wanted = {
        "run_mmlu_regression": asked.run_mmlu_regression,
        "safety_scan": asked.safety_scan,
    }
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
        added.append(_first([key for key in MMLU if key in known], "run_mmlu_regression", "MMLU", "mmlu"))
    if asked.safety_scan and not suites_of(store, [key for key in own if key in known], "safety"):
        largest = sorted(suites_of(store, known, "safety"), key=lambda key: items_of(store, key), reverse=True)
        added.append(_first(largest, "safety_scan", "a safety suite", "safety"))
    return tuple(added)


def _first(found: list[str], member: str, what: str, install: str) -> str:
    if not found:
        raise BadRecipe(
            f"{what} is not installed",
            where=f"eval_config.{member}",
            remedy=f"Leave it out, or have the platform's operator run: ft suite install {install}",
        )
    return found[0]
