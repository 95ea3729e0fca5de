"""A pair's training: its resolved configuration, a sweep's winner, and reference log-probabilities."""

from typing import Any

from ft_assets.control.auto.combinations import require_possible
from ft_assets.control.auto.configure import Configuration, configure
from ft_assets.control.auto.fitting import offloaded, recomputed
from ft_assets.control.auto.resolve import training_settings
from ft_assets.control.identity.accepted import warm_start
from ft_assets.control.identity.bases import base_model
from ft_assets.control.identity.carried_pairs import carried_request
from ft_assets.control.identity.datasets import approved_dataset
from ft_assets.control.identity.lookup import registered_recipe, require_made
from ft_assets.control.identity.packs import token_pack
from ft_assets.control.identity.pairs import pair_recipe
from ft_assets.control.recipes.stored import StoredRecipe
from ft_assets.records.carries import find_carry
from ft_assets.records.sweep_decision import SweepUndecided, decision_path, find_decision
from ft_assets.records.tombstones import require_alive
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.code_versions import CODE_VERSIONS
from ft_assets.settings.keys import DatasetKey, RecipeKey, check_pair
from ft_assets.settings.tags import trial_tags
from ft_assets.workers.model_size.known import known_pair
from ft_assets.workers.training.earlier import WARM_START_INPUT
from ft_assets.workers.training.variants import VARIANTS
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.errors import BadRecipe, MissingInput
from ft_resources.work import WorkRequest


def compares(artifacts: Artifacts, recipe_key: str) -> bool:
    """Whether a recipe's training needs ``reference_logps``."""
    return METHODS[registered_recipe(artifacts, recipe_key).recipe.method].compares


def reference_logps_request(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    """The log-probabilities of a pair's pack under the model that its training starts from, the base or the base with
    the adapter that is continued, in the arithmetic of that training.

    Not an asset of its own: ``checkpoint`` makes it if its method needs it (``compares``).
    """
    recipe = pair_recipe(artifacts, dataset_key, trained_recipe(artifacts, dataset_key, recipe_key))
    base, start = base_model(artifacts, recipe_key).ref, warm_start(artifacts, recipe_key)
    precision = recipe.training.precision
    assert precision != "auto"
    request = WorkRequest(
        asset="reference_logps",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["reference_logps"],
        inputs={
            "pack": token_pack(artifacts, dataset_key, recipe_key).ref,
            **({"reference": start.ref, "base": base} if start else {"reference": base}),
        },
        params={
            "weights": VARIANTS[recipe.variant].weights(precision, recipe.training.weights),
            "precision": precision,
            "device": recipe.hardware.device,
            **({"packing": recipe.packing.mode} if recipe.packing.mode != "auto" else {}),
        },
        label=f"{dataset_key}|{recipe_key}",
        resources=recipe.hardware.resources(1),
    )
    return _of_living(artifacts, request, start)


def reference_logps(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    """The artifact. Raises MissingInput naming ``checkpoint``, which makes it, if it does not exist."""
    request = reference_logps_request(artifacts, dataset_key, recipe_key)
    found = artifacts.find(request.address)
    if found is None:
        raise MissingInput("checkpoint", request.label)
    return found


def checkpoint_request(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    """The training of a pair. A sweep's is its winner's: equal settings give the same address.

    A carried pair has another pair's weights on its own base until a training of it is requested.
    """
    if (carry := find_carry(artifacts.store, dataset_key, recipe_key)) is not None:
        return carried_request(artifacts, carry)
    configuration = pair_configuration(artifacts, dataset_key, recipe_key)
    recipe, training = configuration.recipe, configuration.recipe.training
    larger = {"larger_gpu_type": configuration.larger_gpu_type}
    inputs = {
        "pack": token_pack(artifacts, dataset_key, recipe_key).ref,
        "base": base_model(artifacts, recipe_key).ref,
    }
    if METHODS[recipe.method].compares:
        inputs["reference_logps"] = reference_logps(artifacts, dataset_key, recipe_key).ref
    if start := warm_start(artifacts, recipe_key):
        inputs[WARM_START_INPUT] = start.ref
    request = WorkRequest(
        asset="checkpoint",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["checkpoint"],
        inputs=inputs,
        params=training_settings(recipe),
        runtime={
            "checkpoint_every_steps": training.checkpoint_every_steps,
            "checkpoint_every_minutes": training.checkpoint_every_minutes,
            "micro_batch_divisor": 1,
            "micro_batch_size": training.micro_batch_size,
            "predicted_memory_bytes": configuration.memory_bytes,
            "device": recipe.hardware.device,
            "recompute": recomputed(recipe),
            "offload": offloaded(recipe),
            "compile": recipe.training.compile == "on",
            "processes": max(1, recipe.hardware.most_gpus),
            "nodes": recipe.hardware.nodes,
            **({"virtual_ranks": recipe.hardware.world} if recipe.hardware.elastic else {}),
            "sharding": recipe.hardware.sharding,
            "context_parallel": recipe.hardware.context_parallel,
            "origins": configuration.origins,
            **_tracked(artifacts, recipe_key),
        },
        label=f"{dataset_key}|{recipe_key}",
        resources=recipe.hardware.resources(recipe.hardware.most_gpus, elastic=True).model_copy(update=larger),
    )
    return _of_living(artifacts, request, start)


def _of_living(artifacts: Artifacts, request: WorkRequest, start: Artifact | None) -> WorkRequest:
    """``request``. Raises Deleted where it would make something new of the adapter ``start``, which was deleted."""
    if start is not None and artifacts.find(request.address) is None:
        require_alive(artifacts.store, start)
    return request


def checkpoint(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    return require_made(artifacts, checkpoint_request(artifacts, dataset_key, recipe_key))


def _tracked(artifacts: Artifacts, recipe_key: str) -> dict[str, Any]:
    """Tags of a trial's MLflow run. They are labels only, so they are not part of the identity."""
    trial = registered_recipe(artifacts, recipe_key).trial
    return {"tags": trial_tags(trial.sweep, trial.number)} if trial else {}


def pair_configuration(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Configuration:
    """A pair's recipe with every ``auto`` resolved. Raises BadRecipe if it cannot work with this dataset and base."""
    check_pair(DatasetKey.parse(dataset_key), RecipeKey.parse(recipe_key))
    pack, base = token_pack(artifacts, dataset_key, recipe_key), base_model(artifacts, recipe_key)
    config = base.read("config.json") if "config.json" in base.manifest.files else None
    known = known_pair(pack.facts, base.facts, config)
    trained = trained_recipe(artifacts, dataset_key, recipe_key)
    settled = configure(registered_recipe(artifacts, trained).recipe, known)
    require_possible(settled.recipe, known, f"pair {dataset_key}|{recipe_key}")
    return settled


def trained_recipe(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> str:
    """The recipe whose settings train a pair: its own, or the winner's if it is a sweep.

    Raises SweepUndecided, which names the trials to train, and SweepFailed if none of them can win.
    """
    stored = registered_recipe(artifacts, recipe_key)
    if not stored.trials:
        return recipe_key
    decision = find_decision(artifacts.store, decision_path_of(artifacts, dataset_key, stored))
    if decision is not None:
        return decision.winning.key
    missing = [trial.key for trial in stored.trials if not _trained(artifacts, dataset_key, trial.key)]
    raise SweepUndecided(dataset_key, recipe_key, missing)


def decision_path_of(artifacts: Artifacts, dataset_key: str, sweep: StoredRecipe) -> str:
    """Path of a sweep's decision on a dataset, keyed by their contents, not their names."""
    content = approved_dataset(artifacts, dataset_key).digest
    return decision_path(DatasetKey.parse(dataset_key).tenant, content, sweep.digest)


def _trained(artifacts: Artifacts, dataset_key: str, trial_key: str) -> bool:
    try:
        checkpoint(artifacts, dataset_key, trial_key)
    except (MissingInput, BadRecipe):
        return False
    return True
