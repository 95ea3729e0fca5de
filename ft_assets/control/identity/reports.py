"""What a base and a candidate are scored on: suites, judges, what tells refusals."""

from typing import Any

from ft_assets.datasets.screening.classifiers import get_classifier
from ft_assets.evals.choice import VALIDATION_INPUT
from ft_assets.evals.preferences.judge import JUDGE_INPUT
from ft_assets.evals.preferences.models import local_model
from ft_assets.evals.preferences.prompt import PROMPT
from ft_assets.evals.refusals import ASKED, CLASSIFIER_INPUT, RULE
from ft_assets.evals.suites import get_suite, role_of
from ft_assets.identity.bases import base_model
from ft_assets.identity.lookup import registered_recipe, require_made
from ft_assets.identity.pairs import LEARNS_FROM, fitting_dataset, pair_recipe
from ft_assets.identity.training import checkpoint
from ft_assets.identity.versions import CODE_VERSIONS
from ft_assets.keys import DatasetKey
from ft_assets.recipes.models import Recipe
from ft_assets.sweeps.refuse import refuse_trial
from ft_assets.tenants import load_tenants
from ft_resources.artifacts import Artifact, Artifacts, InputRef
from ft_resources.work import WorkRequest


def baseline_report_request(artifacts: Artifacts, recipe_key: str) -> WorkRequest:
    recipe = registered_recipe(artifacts, recipe_key).recipe
    base, suites = base_model(artifacts, recipe_key), suite_inputs(artifacts, recipe)
    return WorkRequest(
        asset="baseline_report",
        tenant=base.address.tenant,
        code_version=CODE_VERSIONS["baseline_report"],
        inputs={"base": base.ref, **suites},
        params={
            "settings": {
                "seed": recipe.evaluation.seed,
                "limit": recipe.evaluation.suite_limit,
                "chat_template": recipe.chat_template,
                # Only of another engine, so that no other report moved when there was one.
                **({"engine": recipe.evaluation.engine} if recipe.evaluation.engine != "transformers" else {}),
                **_refusal_rule(suites),
            }
        },
        label=recipe_key,
        runtime={"processes": _suite_processes(recipe, suites)},
        resources=recipe.hardware.resources(_suite_processes(recipe, suites)),
    )


def baseline_report(artifacts: Artifacts, recipe_key: str) -> Artifact:
    return require_made(artifacts, baseline_report_request(artifacts, recipe_key))


def eval_report_request(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    refuse_trial(artifacts.store, recipe_key)
    recipe = pair_recipe(artifacts, dataset_key, recipe_key)
    suites = suite_inputs(artifacts, recipe)
    return WorkRequest(
        asset="eval_report",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["eval_report"],
        inputs={
            "checkpoint": checkpoint(artifacts, dataset_key, recipe_key).ref,
            "base": base_model(artifacts, recipe_key).ref,
            "baseline": baseline_report(artifacts, recipe_key).ref,
            "dataset": fitting_dataset(artifacts, dataset_key, recipe).ref,
            **suites,
            **_validation_suite(artifacts, recipe),
            **_local_judges(artifacts, recipe),
            **_refusal_classifier(artifacts, recipe),
        },
        params={
            "evaluation": recipe.evaluation.model_dump(mode="json"),
            "variant": recipe.variant,
            "chat_template": recipe.chat_template,
            # Only of pairs, so that no other report moved when their answers began to be compared.
            **({"pairs": "mean_logp"} if LEARNS_FROM[recipe.method] == "preference" else {}),
            **_refusal_rule(suites),
            # How a judge is asked; only where there is one.
            **({"judge_prompt": PROMPT} if recipe.evaluation.judge else {}),
            **({"refusal_question": ASKED} if _asked_of(recipe) else {}),
        },
        runtime={**_judge_hosts(dataset_key, recipe), "processes": _suite_processes(recipe, suites)},
        label=f"{dataset_key}|{recipe_key}",
        resources=recipe.hardware.resources(_suite_processes(recipe, suites)),
    )


def eval_report(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    return require_made(artifacts, eval_report_request(artifacts, dataset_key, recipe_key))


def suite_inputs(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The recipe's suites as inputs: ``suite:<key>`` of general ones, ``safety:<key>`` of those that count refusals,
    ``shown:<key>`` of those whose answers are only shown."""
    found = {key: get_suite(artifacts.store, key) for key in recipe.evaluation.suites}
    return {f"{role_of(ref)}:{key}": ref for key, ref in found.items()}


def _validation_suite(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The suite that chooses among a training's weights, as an input; the base is not scored on it."""
    wanted = recipe.evaluation.validation_suite
    return {f"{VALIDATION_INPUT}{wanted.suite}": get_suite(artifacts.store, wanted.suite)} if wanted else {}


def _suite_processes(recipe: Recipe, suites: dict[str, InputRef]) -> int:
    """Processes, each with a GPU, that share general suites: no more than there are suites to take."""
    return max(1, min(recipe.hardware.gpus, sum(name.startswith("suite:") for name in suites)))


def _refusal_rule(suites: dict[str, InputRef]) -> dict[str, str]:
    """How refusals are told; only where some are counted, so that no other report moves when the rule changes."""
    return {"refusals": RULE} if any(name.startswith("safety:") for name in suites) else {}


def _local_judges(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The judges that the worker loads, as inputs by their place."""
    owner = recipe.recipe_key.owner
    return {
        f"{JUDGE_INPUT}{place}": local_model(artifacts, model.model, owner, base_model).ref
        for place, model in enumerate(recipe.evaluation.judge.models if recipe.evaluation.judge else ())
        if model.is_local
    }


def _refusal_classifier(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The model that tells refusals, as an input, where the recipe names one."""
    wanted = recipe.evaluation.refusal_classifier
    if wanted is None:
        return {}
    if wanted.classifier is not None:
        return {CLASSIFIER_INPUT: get_classifier(artifacts.store, wanted.classifier)}
    return {CLASSIFIER_INPUT: local_model(artifacts, _asked_of(recipe), recipe.recipe_key.owner, base_model).ref}


def _asked_of(recipe: Recipe) -> str:
    """The causal model that is asked about refusals, "" where none is."""
    wanted = recipe.evaluation.refusal_classifier
    return (wanted.model or "") if wanted else ""


def _judge_hosts(dataset_key: str, recipe: Recipe) -> dict[str, Any]:
    """The hosts that the worker may ask to judge, as the platform allows them today; it refuses all others."""
    if not any(not model.is_local for model in (recipe.evaluation.judge.models if recipe.evaluation.judge else ())):
        return {}
    hosts = load_tenants().judge_hosts_of(DatasetKey.parse(dataset_key).tenant)
    return {"judge_hosts": [host.model_dump(mode="json") for host in hosts]}
