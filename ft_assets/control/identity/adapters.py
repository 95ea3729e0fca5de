"""A pair's adapter: the last step of resolution."""

from collections.abc import Mapping, Sequence
from typing import Any

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
from ft_assets.settings.ungated import ADD_GATES, NO_GATES, NOT_JUDGED, UNGATED, without_gates
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import UserError
from ft_resources.work import WorkRequest


def adapter_request(artifacts: Artifacts, dataset_key: str, recipe_key: str, gates: Sequence[str] = ()) -> WorkRequest:
    """The adapter of a pair, or its ungated result where the recipe has no gates; ``gates`` are a submission's
    additions to the recipe's."""
    refuse_trial(artifacts.store, recipe_key)
    recipe = pair_recipe(artifacts, dataset_key, recipe_key)
    tightened = tighten(recipe.gates, gates)
    asset = UNGATED if tightened == NO_GATES else "adapter"
    request = WorkRequest(
        asset=asset,
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS[asset],
        inputs={
            "checkpoint": checkpoint(artifacts, dataset_key, recipe_key).ref,
            "base": base_model(artifacts, recipe_key).ref,
            "eval_report": eval_report(artifacts, dataset_key, recipe_key).ref,
        },
        params={
            "gates": tightened if tightened == NO_GATES else tightened.model_dump(mode="json"),
            # Suites whose scores must not get worse.
            "suites": [name.partition(":")[2] for name in suite_inputs(artifacts, recipe) if name.startswith("suite:")],
            "line": line_of(DatasetKey.parse(dataset_key), RecipeKey.parse(recipe_key)),
            "dataset": dataset_key,
            "recipe": recipe_key,
            "chat_template": recipe.template,
        },
        label=f"{dataset_key}|{recipe_key}",
    )
    require_not_deleted(artifacts.store, Subject.adapter(request.address))
    return request


def adapter(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    """The accepted adapter of a pair. Raises UserError for a recipe without gates, MissingInput if it was not made."""
    request = adapter_request(artifacts, dataset_key, recipe_key)
    require_gated(request.params, request.label)
    return require_made(artifacts, request)


def exported(artifacts: Artifacts, dataset_key: str, recipe_key: str, gates: Sequence[str] = ()) -> Artifact:
    """The result of a pair's last step: its accepted adapter, or its ungated result; ``gates`` as above."""
    return require_made(artifacts, adapter_request(artifacts, dataset_key, recipe_key, gates))


def require_gated(params: Mapping[str, Any], where: str) -> None:
    """Raise UserError for an ungated result, at whatever address it is: no gate judged it."""
    if without_gates(params):
        raise UserError(f"this result is ungated: {NOT_JUDGED}", where=where, remedy=ADD_GATES)
