"""What a base and a candidate are scored on: suites, judges, and the refusal classifier."""

from typing import Any

from ft_assets.control.identity.bases import base_model
from ft_assets.control.identity.lookup import registered_recipe, require_made
from ft_assets.control.identity.pairs import fitting_dataset, pair_recipe
from ft_assets.control.identity.training import checkpoint
from ft_assets.records.judge_models import local_model
from ft_assets.records.trial_only import refuse_trial
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.code_versions import CODE_VERSIONS, JUDGE_PROMPT
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import NO_TENANTS, TenantsFile
from ft_assets.workers.evals.preferences.judge import JUDGE_INPUT
from ft_assets.workers.evals.refusals import ASKED, CLASSIFIER_INPUT, RULE
from ft_assets.workers.evals.selection_rule import VALIDATION_INPUT
from ft_assets.workers.suites.registered import get_classifier, get_suite, role_of
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.work import WorkRequest


def baseline_report_request(artifacts: Artifacts, recipe_key: str) -> WorkRequest:
    recipe = registered_recipe(artifacts, recipe_key).recipe
    base, suites = base_model(artifacts, recipe_key), suite_inputs(artifacts, recipe)
    resources = recipe.hardware.resources(_suite_processes(recipe, suites))
    if base.address.tenant != recipe.recipe_key.owner:
        # The work runs as ``shared``, whose role may publish bases for all tenants.
        resources = resources.model_copy(update={"image": None})
    return WorkRequest(
        asset="baseline_report",
        tenant=base.address.tenant,
        code_version=CODE_VERSIONS["baseline_report"],
        inputs={"base": base.ref, **suites},
        params={
            "settings": {
                "seed": recipe.evaluation.seed,
                "limit": recipe.evaluation.suite_limit,
                "chat_template": recipe.template,
                # Only for another engine, so that the addresses of existing reports did not change.
                **({"engine": recipe.evaluation.engine} if recipe.evaluation.engine != "transformers" else {}),
                **_refusal_rule(suites),
            }
        },
        label=recipe_key,
        runtime={"processes": _suite_processes(recipe, suites)},
        resources=resources,
    )


def baseline_report(artifacts: Artifacts, recipe_key: str) -> Artifact:
    return require_made(artifacts, baseline_report_request(artifacts, recipe_key))


def eval_report_request(
    artifacts: Artifacts, dataset_key: str, recipe_key: str, tenants: TenantsFile = NO_TENANTS
) -> WorkRequest:
    """The evaluation of a pair; ``tenants`` says which judge hosts its worker may ask, none without it."""
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
            "chat_template": recipe.template,
            **METHODS[recipe.method].form.report_params,
            **_refusal_rule(suites),
            # How a judge is asked; only if there is one.
            **({"judge_prompt": JUDGE_PROMPT} if recipe.evaluation.judge else {}),
            **({"refusal_question": ASKED} if _asked_of(recipe) else {}),
        },
        label=f"{dataset_key}|{recipe_key}",
        **_evaluated_on(dataset_key, recipe, suites, tenants),
    )


def reevaluation_request(
    artifacts: Artifacts, adapter: Artifact, exported: Artifact, tenants: TenantsFile = NO_TENANTS
) -> WorkRequest:
    """The evaluation of an export of an adapter, a whole model: on exactly the suites, rows and settings of the
    adapter's evaluation, whatever their names refer to today."""
    report = artifacts.get(Address.parse(adapter.manifest.inputs["eval_report"].address)).manifest
    params, theirs = report.identity["params"], adapter.manifest.identity["params"]
    recipe = registered_recipe(artifacts, theirs["recipe"]).recipe
    # It has one set of weights: there is nothing to choose.
    inputs = {name: ref for name, ref in report.inputs.items() if not name.startswith(VALIDATION_INPUT)}
    return WorkRequest(
        asset="eval_report",
        tenant=adapter.address.tenant,
        code_version=CODE_VERSIONS["eval_report"],
        inputs={**inputs, "checkpoint": exported.ref},
        params={**params, "variant": "full", "evaluation": {**params["evaluation"], "candidate": "last"}},
        label=f"{theirs['dataset']}|{theirs['recipe']}",
        **_evaluated_on(theirs["dataset"], recipe, inputs, tenants),
    )


def eval_report(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    return require_made(artifacts, eval_report_request(artifacts, dataset_key, recipe_key))


def suite_inputs(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The recipe's suites as inputs: ``suite:<key>`` for general ones, ``safety:<key>`` for those that count refusals,
    ``shown:<key>`` for those whose answers are only shown."""
    found = {key: get_suite(artifacts.store, key) for key in recipe.evaluation.suites}
    return {f"{role_of(ref)}:{key}": ref for key, ref in found.items()}


def _validation_suite(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The suite that selects among a training's weights, as an input; the base is not scored on it."""
    wanted = recipe.evaluation.validation_suite
    return {f"{VALIDATION_INPUT}{wanted.suite}": get_suite(artifacts.store, wanted.suite)} if wanted else {}


def _evaluated_on(
    dataset_key: str, recipe: Recipe, suites: dict[str, InputRef], tenants: TenantsFile
) -> dict[str, Any]:
    """Where an evaluation runs, and which judges it may ask; not part of its identity."""
    processes = _suite_processes(recipe, suites)
    return {
        "runtime": {**_judge_hosts(dataset_key, recipe, tenants), "processes": processes},
        "resources": recipe.hardware.resources(processes),
    }


def _suite_processes(recipe: Recipe, suites: dict[str, InputRef]) -> int:
    """Number of processes, each with a GPU, that share the general suites: at most one per suite."""
    return max(1, min(recipe.hardware.most_gpus, sum(name.startswith("suite:") for name in suites)))


def _refusal_rule(suites: dict[str, InputRef]) -> dict[str, str]:
    """How refusals are recognised; only if they are counted, so that a new rule changes no other report's address."""
    return {"refusals": RULE} if any(name.startswith("safety:") for name in suites) else {}


def _local_judges(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The judges that the worker loads, as inputs by position."""
    owner = recipe.recipe_key.owner
    return {
        f"{JUDGE_INPUT}{place}": local_model(artifacts, model.model, owner, base_model).ref
        for place, model in enumerate(recipe.evaluation.judge.models if recipe.evaluation.judge else ())
        if model.is_local
    }


def _refusal_classifier(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The model that recognises refusals, as an input, if the recipe names one."""
    wanted = recipe.evaluation.refusal_classifier
    if wanted is None:
        return {}
    if wanted.classifier is not None:
        return {CLASSIFIER_INPUT: get_classifier(artifacts.store, wanted.classifier)}
    return {CLASSIFIER_INPUT: local_model(artifacts, _asked_of(recipe), recipe.recipe_key.owner, base_model).ref}


def _asked_of(recipe: Recipe) -> str:
    """The causal model that is asked about refusals, or ""."""
    wanted = recipe.evaluation.refusal_classifier
    return (wanted.model or "") if wanted else ""


def _judge_hosts(dataset_key: str, recipe: Recipe, tenants: TenantsFile) -> dict[str, Any]:
    """Judge hosts that the platform allows today; the worker refuses all others."""
    if all(model.is_local for model in (recipe.evaluation.judge.models if recipe.evaluation.judge else ())):
        return {}
    hosts = tenants.judge_hosts_of(DatasetKey.parse(dataset_key).tenant)
    return {"judge_hosts": [host.model_dump(mode="json") for host in hosts]}
