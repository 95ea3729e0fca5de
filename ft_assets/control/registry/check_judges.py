"""Check, before anything is trained, that a recipe's judges can do their work."""

from pathlib import Path

from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.judge_models import local_model, named_recipe
from ft_assets.records.neutrality import require_neutral
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.judge_hosts import allowed_host
from ft_assets.settings.recipe.judges import JudgeModel
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.shipped_suites import MADE_SAFETY
from ft_assets.settings.tenants import TenantsFile
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.contents import base_json
from ft_assets.workers.suites.registered import get_classifier, get_suite, suites_of
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import BadRecipe, MissingInput, UserError
from ft_resources.store import Store
from ft_resources.strict import nearest


def require_judges(
    store: Store, tenants: TenantsFile, recipe: Recipe, lock: BaseLock, folder: Path | None, where: str
) -> None:
    """Raise BadRecipe if the recipe asks for something its judges cannot provide.

    Args:
        folder: the base's folder if it is on this machine. Otherwise the model family is taken from the base's name, or
            unknown until the base is in the store.
    """
    judge = recipe.evaluation.judge
    if recipe.gates != NO_GATES and recipe.gates.judge is not None and judge is None:
        raise BadRecipe(
            "gates.judge: a judge's preference is required, and evaluation.judge is not set",
            where=where,
            remedy="Name one in evaluation.judge, or leave gates.judge out.",
        )
    if judge is not None and METHODS[recipe.method].form.plain and judge.prompts == "holdout":
        raise BadRecipe(
            "evaluation.judge: texts have no answers to judge",
            where=where,
            remedy=f"Leave evaluation.judge out of a recipe of method {recipe.method}, or let it judge golden prompts.",
        )
    owner = recipe.recipe_key.owner
    try:
        for model in judge.models if judge else ():
            names = _require_there(store, tenants, model, owner)
            require_neutral(model, names, base=_names(lock, folder), written_by=(), certain=False)
        _require_prompts(store, recipe)
        _require_classifier(store, recipe)
    except UserError as error:
        raise BadRecipe(error.what, where=f"{where}, {error.where}", remedy=error.remedy) from error


def require_judges_of_pair(store: Store, tenants: TenantsFile, recipe: Recipe, raw: Artifact) -> None:
    """Raise UserError if a judge may not see the rows of the upload ``raw``, or belongs to the family that wrote its
    answers."""
    for model in recipe.evaluation.judge.models if recipe.evaluation.judge else ():
        if not model.is_local:
            allowed_host(model, tenants.judge_hosts_of(raw.address.tenant))
        names = _require_local(store, model.model, recipe.recipe_key.owner) if model.is_local else []
        writer = (raw.manifest.identity["params"].get("policy") or {}).get("generated_by")
        require_neutral(model, names, base=(), written_by=[writer] if writer else [], certain=False)


def _require_prompts(store: Store, recipe: Recipe) -> None:
    """Raise UserError if judges would compare answers to a suite that is not evaluated or not golden."""
    judge = recipe.evaluation.judge
    if judge is None or judge.prompts == "holdout":
        return
    field = "evaluation.judge.prompts"
    if judge.prompts not in recipe.evaluation.suites:
        raise UserError(
            f"answers to {judge.prompts} would be judged, but evaluation.suites does not name it, so there are no "
            f"answers; {nearest(judge.prompts, list(recipe.evaluation.suites))}",
            where=field,
            remedy="Also name the suite in evaluation.suites.",
        )
    suite = Artifacts(store).get(Address.parse(get_suite(store, judge.prompts).address))
    if suite.facts["kind"] != "golden":
        raise UserError(
            f"{judge.prompts} is of kind {suite.facts['kind']}, and judges compare answers to golden prompts",
            where=field,
            remedy="Name a suite of kind: golden, or holdout.",
        )


def _require_classifier(store: Store, recipe: Recipe) -> None:
    wanted = recipe.evaluation.refusal_classifier
    if wanted is None:
        return
    field = "evaluation.refusal_classifier"
    # The made one is registered with the recipe.
    if MADE_SAFETY not in recipe.evaluation.suites and not suites_of(store, recipe.evaluation.suites, "safety"):
        raise UserError(
            "it recognises refusals on a safety suite, and evaluation.suites names none",
            where=field,
            remedy="Add a suite of kind: safety to evaluation.suites, or leave refusal_classifier out.",
        )
    if wanted.model is not None:
        _require_local(store, wanted.model, recipe.recipe_key.owner)
    elif wanted.classifier is not None:
        found = Artifacts(store).get(Address.parse(get_classifier(store, wanted.classifier).address))
        known = tuple(found.facts["labels"])
        for label in wanted.labels:
            if label not in known:
                raise UserError(
                    f"{wanted.classifier} has no label {label!r}; {nearest(label, list(known))}",
                    where=f"{field}, labels",
                    remedy=f"Name labels among: {', '.join(known)}.",
                )


def _require_there(store: Store, tenants: TenantsFile, model: JudgeModel, owner: str) -> list[str]:
    """A judge's names apart from its settings. Raises UserError if it is not available."""
    if model.is_local:
        return _require_local(store, model.model, owner)
    allowed_host(model, tenants.judge_hosts_of(owner))
    return []


def _require_local(store: Store, reference: str, owner: str) -> list[str]:
    recipe = named_recipe(reference, owner)
    if recipe is not None:
        return [get_recipe(store, recipe).lock.source]
    local_model(Artifacts(store), reference, owner, _no_base)
    return []


def _no_base(artifacts: Artifacts, recipe_key: str) -> Artifact:
    raise MissingInput("base_model", recipe_key)


def _names(lock: BaseLock, folder: Path | None) -> list[str]:
    if folder is None:
        return [lock.source]
    return [lock.source, *map(str, base_json(folder / "config.json", str(folder)).get("architectures") or [])]
