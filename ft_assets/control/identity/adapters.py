"""A pair's adapter: the last step of resolution."""

from collections.abc import Sequence

from ft_assets.control.identity.bases import base_model
from ft_assets.control.identity.lookup import require_made
from ft_assets.control.identity.pairs import pair_recipe
from ft_assets.control.identity.reports import eval_report, suite_inputs
from ft_assets.control.identity.training import checkpoint
from ft_assets.records.tombstones import Subject, require_not_deleted
from ft_assets.records.trial_only import refuse_trial
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.keys import DatasetKey, RecipeKey, line_of
from ft_assets.settings.recipe.tightening import tighten
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.work import WorkRequest


def adapter_request(artifacts: Artifacts, dataset_key: str, recipe_key: str, gates: Sequence[str] = ()) -> WorkRequest:
    """The adapter of a pair; ``gates`` are a submission's additions to the recipe's."""
    refuse_trial(artifacts.store, recipe_key)
    recipe = pair_recipe(artifacts, dataset_key, recipe_key)
    request = WorkRequest(
        asset="adapter",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["adapter"],
        inputs={
            "checkpoint": checkpoint(artifacts, dataset_key, recipe_key).ref,
            "base": base_model(artifacts, recipe_key).ref,
            "eval_report": eval_report(artifacts, dataset_key, recipe_key).ref,
        },
        params={
            "gates": tighten(recipe.gates, gates).model_dump(mode="json"),
            # Suites whose scores must not get worse.
            "suites": [name.partition(":")[2] for name in suite_inputs(artifacts, recipe) if name.startswith("suite:")],
            "line": line_of(DatasetKey.parse(dataset_key), RecipeKey.parse(recipe_key)),
            "dataset": dataset_key,
            "recipe": recipe_key,
            "chat_template": recipe.chat_template,
        },
        label=f"{dataset_key}|{recipe_key}",
    )
    require_not_deleted(artifacts.store, Subject.adapter(request.address))
    return request


def adapter(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    return require_made(artifacts, adapter_request(artifacts, dataset_key, recipe_key))
