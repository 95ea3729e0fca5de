"""Where inputs are: a pure walk from partition keys over names and manifests to addresses.

For every asset ``x`` there is ``x_request``, which says what would be made with today's inputs and code, and ``x``,
which finds it or raises ``MissingInput`` with the asset to materialize. Nothing here looks for a newest anything.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ft_assets.base_bumps.carried import SOURCE
from ft_assets.base_bumps.carries import Carry, find_carry
from ft_assets.base_bumps.fit import misfit
from ft_assets.checkpoints.configuration.combinations import require_possible
from ft_assets.checkpoints.configuration.configure import Configuration, configure
from ft_assets.checkpoints.configuration.known import known_pair
from ft_assets.checkpoints.methods import METHODS
from ft_assets.checkpoints.variants import VARIANTS
from ft_assets.datasets.policy import policy_of
from ft_assets.datasets.review import require_approved
from ft_assets.datasets.screening.classifiers import get_classifier
from ft_assets.erasure.tombstones import Subject, require_dataset_alive, require_not_deleted, require_tenant_alive
from ft_assets.evals.preferences.judge import JUDGE_INPUT
from ft_assets.evals.preferences.models import local_model
from ft_assets.evals.preferences.prompt import PROMPT
from ft_assets.evals.refusals import ASKED, CLASSIFIER_INPUT, RULE
from ft_assets.evals.suites import get_suite, role_of
from ft_assets.keys import SHARED, DatasetKey, RecipeKey, check_pair, line_of
from ft_assets.recipes.models import Recipe
from ft_assets.recipes.register import StoredRecipe, get_recipe
from ft_assets.recipes.tightening import tighten
from ft_assets.sweeps.compared import trial_tags
from ft_assets.sweeps.decision import SweepUndecided, decision_path, find_decision
from ft_assets.sweeps.refuse import refuse_trial
from ft_assets.tenants import load_tenants
from ft_resources.artifacts import Address, Artifact, Artifacts, InputRef
from ft_resources.canonical import digest
from ft_resources.errors import BadRecipe, CorruptArtifact, Deleted, MissingInput, UserError
from ft_resources.work import WorkRequest

# What each training method can learn from: the ``form`` of a dataset.
LEARNS_FROM: dict[str, str] = {name: method.form for name, method in METHODS.items()}
# Raise an asset's version when its code would give other bytes for the same inputs.
CODE_VERSIONS: dict[str, str] = {
    "raw_dataset": "1",
    "dataset": "2",
    "base_model": "1",
    "baseline_report": "2",
    "token_pack": "3",
    "reference_logps": "1",
    "checkpoint": "2",
    "eval_report": "4",
    "adapter": "3",
}
# What decides a pack's tokens beside our code, as pinned in constraints.txt: an upgrade may encode or render otherwise.
# Named here and not asked of the installation, as the code location has not all of them; the worker compares.
PACK_TOOLS: dict[str, str] = {
    "jinja2": "3.1.6",
    "tiktoken": "0.14.0",
    "tokenizers": "0.23.3",
    "trl": "1.16.0",
}


def raw_dataset(artifacts: Artifacts, dataset_key: str) -> Artifact:
    """The uploaded bytes behind a dataset version. Raises UserError for a key that was never added, and Deleted."""
    key = DatasetKey.parse(dataset_key)
    require_dataset_alive(artifacts.store, key)
    pointer = artifacts.store.find_json(f"names/dataset/{key}.json")
    if pointer is None:
        raise UserError(
            f"there is no dataset version {str(key)!r}",
            where=f"dataset key {dataset_key!r}",
            remedy=f"Add it with: ft dataset add FILE --name {key.tenant}.{key.name}",
        )
    return artifacts.get(Address.parse(pointer["address"]))


def dataset_request(artifacts: Artifacts, dataset_key: str) -> WorkRequest:
    raw = raw_dataset(artifacts, dataset_key)
    settled = raw.manifest.identity["params"]["policy"]
    policy = policy_of(settled)
    suites = policy.contamination.suites
    inputs = {f"suite:{key}": get_suite(artifacts.store, key) for key in (() if suites == "all" else suites)}
    if policy.toxicity:
        inputs["classifier"] = get_classifier(artifacts.store, policy.toxicity.classifier)
    inputs.update({f"mix:{each.dataset}": approved_dataset(artifacts, each.dataset).ref for each in policy.mix})
    return WorkRequest(
        asset="dataset",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["dataset"],
        inputs={"raw": raw.ref, **inputs},
        params={"policy": settled},
        label=dataset_key,
    )


def dataset(artifacts: Artifacts, dataset_key: str) -> Artifact:
    """The curated version as it is, for those who show it; what makes something of it asks ``approved_dataset``."""
    return _require(artifacts, dataset_request(artifacts, dataset_key))


def approved_dataset(artifacts: Artifacts, dataset_key: str) -> Artifact:
    """The curated version, to be used. Raises HeldForReview where a person must look at it first, and has not."""
    curated = dataset(artifacts, dataset_key)
    require_approved(artifacts, curated, dataset_key)
    return curated


def base_model_request(artifacts: Artifacts, recipe_key: str) -> WorkRequest:
    stored = _recipe(artifacts, recipe_key)
    lock = stored.lock
    new_tokens = list(stored.recipe.new_tokens)
    return WorkRequest(
        asset="base_model",
        # A hub model is the same for all and mirrored once; what a recipe's owner brought or adds stays with the owner.
        tenant=SHARED if lock.kind == "hub" and not new_tokens else RecipeKey.parse(recipe_key).owner,
        code_version=CODE_VERSIONS["base_model"],
        inputs=lock.inputs,
        params={"lock": lock.terms, **({"new_tokens": new_tokens} if new_tokens else {})},
        label=recipe_key,
    )


def base_model(artifacts: Artifacts, recipe_key: str) -> Artifact:
    return _require(artifacts, base_model_request(artifacts, recipe_key))


def baseline_report_request(artifacts: Artifacts, recipe_key: str) -> WorkRequest:
    recipe = _recipe(artifacts, recipe_key).recipe
    base, suites = base_model(artifacts, recipe_key), _suites(artifacts, recipe)
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
    return _require(artifacts, baseline_report_request(artifacts, recipe_key))


def token_pack_request(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    recipe = _pair(artifacts, dataset_key, recipe_key)
    base = base_model(artifacts, recipe_key)
    tokenizer = {key: base.facts[key] for key in ("tokenizer_digest", "template_digest")}
    return WorkRequest(
        asset="token_pack",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["token_pack"],
        inputs={
            "dataset": _fitting_dataset(artifacts, dataset_key, recipe).ref,
            # Bases with one tokenizer and template share packs, so only these two count.
            "base": InputRef(address=str(base.address), digest=digest(tokenizer)),
        },
        params={**recipe.token_settings(), "form": LEARNS_FROM[recipe.method], "tools": PACK_TOOLS},
        label=f"{dataset_key}|{recipe_key}",
    )


def token_pack(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    return _require(artifacts, token_pack_request(artifacts, dataset_key, recipe_key))


def reference_logps_request(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    """The base's log-probabilities of a pair's pack, in the arithmetic of the pair's training.

    No asset of its own: ``checkpoint`` has it made where its method compares (``compares``).
    """
    recipe = _pair(artifacts, dataset_key, trained_recipe(artifacts, dataset_key, recipe_key))
    precision = recipe.training.precision
    assert precision != "auto"
    return WorkRequest(
        asset="reference_logps",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["reference_logps"],
        inputs={
            "pack": token_pack(artifacts, dataset_key, recipe_key).ref,
            "reference": base_model(artifacts, recipe_key).ref,
        },
        params={
            "weights": VARIANTS[recipe.variant].weights(precision),
            "precision": precision,
            "device": recipe.hardware.device,
        },
        label=f"{dataset_key}|{recipe_key}",
        resources=recipe.hardware.resources(1),
    )


def compares(artifacts: Artifacts, recipe_key: str) -> bool:
    """Whether a recipe's training needs ``reference_logps``."""
    return METHODS[_recipe(artifacts, recipe_key).recipe.method].compares


def reference_logps(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    """Raises MissingInput for ``checkpoint``, by which it is made, where it is not there."""
    request = reference_logps_request(artifacts, dataset_key, recipe_key)
    found = artifacts.find(request.address)
    if found is None:
        raise MissingInput("checkpoint", request.label)
    return found


def checkpoint_request(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    """The training of a pair. A sweep's is its winner's: equal settings, and so the same address.

    A pair that is carried has another one's weights on its base, until somebody asks for a training of it.
    """
    if (carry := find_carry(artifacts.store, dataset_key, recipe_key)) is not None:
        return _carried_request(artifacts, carry)
    configuration = pair_configuration(artifacts, dataset_key, recipe_key)
    recipe, training = configuration.recipe, configuration.recipe.training
    inputs = {
        "pack": token_pack(artifacts, dataset_key, recipe_key).ref,
        "base": base_model(artifacts, recipe_key).ref,
    }
    if METHODS[recipe.method].compares:
        inputs["reference_logps"] = reference_logps(artifacts, dataset_key, recipe_key).ref
    return WorkRequest(
        asset="checkpoint",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["checkpoint"],
        inputs=inputs,
        params=recipe.training_settings(),
        runtime={
            "checkpoint_every_steps": training.checkpoint_every_steps,
            "checkpoint_every_minutes": training.checkpoint_every_minutes,
            "micro_batch_divisor": 1,
            "micro_batch_size": training.micro_batch_size,
            "predicted_memory_bytes": configuration.memory_bytes,
            "device": recipe.hardware.device,
            "recompute": training.recompute == "on",
            "processes": max(1, recipe.hardware.gpus),
            "nodes": recipe.hardware.nodes,
            "sharding": recipe.hardware.sharding,
            "origins": configuration.origins,
            **_tracked(artifacts, recipe_key),
        },
        label=f"{dataset_key}|{recipe_key}",
        resources=recipe.hardware.resources(recipe.hardware.gpus),
    )


def _carried_request(artifacts: Artifacts, carry: Carry) -> WorkRequest:
    """The checkpoint of a carried pair: no work for a worker (``make_carried``)."""
    source = _carry_source(artifacts, carry)
    return WorkRequest(
        asset="checkpoint",
        tenant=source.address.tenant,
        code_version=CODE_VERSIONS["checkpoint"],
        inputs={
            SOURCE: source.ref,
            "pack": source.manifest.inputs["pack"],
            "base": base_model(artifacts, carry.recipe).ref,
        },
        params={"mode": "carry"},
        label=f"{carry.dataset}|{carry.recipe}",
    )


def _carry_source(artifacts: Artifacts, carry: Carry) -> Artifact:
    source = artifacts.get(Address.parse(carry.checkpoint.address))
    if source.digest != carry.checkpoint.digest:
        raise CorruptArtifact(
            f"it has changed since {carry.dataset}|{carry.recipe} was to be carried from it",
            where=str(source.address),
            remedy="Restore its manifest from the bucket's versions or a backup.",
        )
    return source


def carry_problem(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> str:
    """Why a pair cannot be carried, though that was asked for; "" where it can. Raises MissingInput for its base."""
    carry = find_carry(artifacts.store, dataset_key, recipe_key)
    if carry is None:
        return "it is not carried any more: a training of the pair was asked for"
    try:
        require_not_deleted(artifacts.store, Subject.adapter(Address.parse(carry.adapter.address)))
    except Deleted as error:
        return error.what
    source = _carry_source(artifacts, carry)
    return misfit(
        source,
        artifacts.find(Address.parse(source.manifest.inputs["base"].address)),
        base_model(artifacts, recipe_key),
        template_given=_recipe(artifacts, recipe_key).recipe.chat_template is not None,
    )


def _tracked(artifacts: Artifacts, recipe_key: str) -> dict[str, Any]:
    """What MLflow is to know of a trial from its first step on; words, and so no part of what it is."""
    trial = _recipe(artifacts, recipe_key).trial
    return {"tags": trial_tags(trial.sweep, trial.number)} if trial else {}


def pair_configuration(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Configuration:
    """A pair's recipe with nothing left open. Raises BadRecipe where it cannot work with this dataset and base."""
    check_pair(DatasetKey.parse(dataset_key), RecipeKey.parse(recipe_key))
    pack, base = token_pack(artifacts, dataset_key, recipe_key), base_model(artifacts, recipe_key)
    config = base.read("config.json") if "config.json" in base.manifest.files else None
    known = known_pair(pack.facts, base.facts, config)
    trained = trained_recipe(artifacts, dataset_key, recipe_key)
    settled = configure(_recipe(artifacts, trained).recipe, known)
    require_possible(settled.recipe, known, f"pair {dataset_key}|{recipe_key}")
    return settled


def trained_recipe(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> str:
    """The recipe whose settings a pair is trained with: the pair's own, and of a sweep the winner's.

    Raises SweepUndecided, which names the trials to train, and SweepFailed where none of them can win.
    """
    stored = _recipe(artifacts, recipe_key)
    if not stored.trials:
        return recipe_key
    decision = find_decision(artifacts.store, decision_path_of(artifacts, dataset_key, stored))
    if decision is not None:
        return decision.winning.key
    missing = [trial.key for trial in stored.trials if not _trained(artifacts, dataset_key, trial.key)]
    raise SweepUndecided(dataset_key, recipe_key, missing)


def decision_path_of(artifacts: Artifacts, dataset_key: str, sweep: StoredRecipe) -> str:
    """Where it is recorded which trial of a sweep won on a dataset, by what both are and not by their names."""
    content = approved_dataset(artifacts, dataset_key).digest
    return decision_path(DatasetKey.parse(dataset_key).tenant, content, sweep.digest)


def _trained(artifacts: Artifacts, dataset_key: str, trial_key: str) -> bool:
    try:
        checkpoint(artifacts, dataset_key, trial_key)
    except (MissingInput, BadRecipe):
        return False
    return True


def checkpoint(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Artifact:
    return _require(artifacts, checkpoint_request(artifacts, dataset_key, recipe_key))


def eval_report_request(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> WorkRequest:
    refuse_trial(artifacts.store, recipe_key)
    recipe = _pair(artifacts, dataset_key, recipe_key)
    suites = _suites(artifacts, recipe)
    return WorkRequest(
        asset="eval_report",
        tenant=DatasetKey.parse(dataset_key).tenant,
        code_version=CODE_VERSIONS["eval_report"],
        inputs={
            "checkpoint": checkpoint(artifacts, dataset_key, recipe_key).ref,
            "base": base_model(artifacts, recipe_key).ref,
            "baseline": baseline_report(artifacts, recipe_key).ref,
            "dataset": _fitting_dataset(artifacts, dataset_key, recipe).ref,
            **suites,
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
    return _require(artifacts, eval_report_request(artifacts, dataset_key, recipe_key))


def adapter_request(artifacts: Artifacts, dataset_key: str, recipe_key: str, gates: Sequence[str] = ()) -> WorkRequest:
    """The adapter of a pair; ``gates`` are those that a submission asks for beyond the recipe's."""
    refuse_trial(artifacts.store, recipe_key)
    recipe = _pair(artifacts, dataset_key, recipe_key)
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
            # Those that must not get worse.
            "suites": [name.partition(":")[2] for name in _suites(artifacts, recipe) if name.startswith("suite:")],
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
    return _require(artifacts, adapter_request(artifacts, dataset_key, recipe_key))


def _require(artifacts: Artifacts, request: WorkRequest) -> Artifact:
    found = artifacts.find(request.address)
    if found is None:
        raise MissingInput(request.asset, request.label)
    return found


def _recipe(artifacts: Artifacts, recipe_key: str) -> StoredRecipe:
    key = RecipeKey.parse(recipe_key)
    if key.tenant:
        require_tenant_alive(artifacts.store, key.tenant)
    return get_recipe(artifacts.store, str(key))


def _pair(artifacts: Artifacts, dataset_key: str, recipe_key: str) -> Recipe:
    """The recipe of a pair that makes sense, settled as far as it settles itself. Raises UserError for others."""
    check_pair(DatasetKey.parse(dataset_key), RecipeKey.parse(recipe_key))
    return _recipe(artifacts, recipe_key).recipe.resolved()[0]


def require_fitting(artifacts: Artifacts, dataset_key: str, recipe: Recipe) -> None:
    """Raise UserError where the recipe's method learns from another kind of data than the dataset's; before it is
    curated, nobody knows."""
    with suppress(MissingInput):
        _require_form(dataset(artifacts, dataset_key), dataset_key, recipe)


def _fitting_dataset(artifacts: Artifacts, dataset_key: str, recipe: Recipe) -> Artifact:
    """The curated dataset of a pair. Raises UserError where the recipe's method learns from another kind of data, and
    HeldForReview where the version may not be used yet."""
    curated = approved_dataset(artifacts, dataset_key)
    _require_form(curated, dataset_key, recipe)
    if not curated.facts["rows"]["validation"] and _is_chosen_by_validation(artifacts, recipe.key):
        raise UserError(
            f"a sweep chooses by validation loss, and dataset {dataset_key} has no validation rows",
            where=f"pair {dataset_key}|{recipe.key}",
            remedy="Add a version with a validation split (split.validation in its dataset.yaml), or use a recipe "
            "without a sweep.",
        )
    return curated


def _require_form(curated: Artifact, dataset_key: str, recipe: Recipe) -> None:
    wanted = LEARNS_FROM[recipe.method]
    if curated.facts["form"] != wanted:
        raise UserError(
            f"dataset {dataset_key} holds {curated.facts['form']} data, and {recipe.method} learns from {wanted} data",
            where=f"pair {dataset_key}|{recipe.key}",
            remedy=f"Use a recipe of another method, or a dataset of {wanted} data.",
        )


def _is_chosen_by_validation(artifacts: Artifacts, recipe_key: str) -> bool:
    stored = _recipe(artifacts, recipe_key)
    return bool(stored.trials) or stored.trial is not None


def _suites(artifacts: Artifacts, recipe: Recipe) -> dict[str, InputRef]:
    """The recipe's suites as inputs: ``suite:<key>`` of general ones, ``safety:<key>`` of those that count refusals,
    ``shown:<key>`` of those whose answers are only shown."""
    found = {key: get_suite(artifacts.store, key) for key in recipe.evaluation.suites}
    return {f"{role_of(ref)}:{key}": ref for key, ref in found.items()}


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


def pair_requests() -> dict[str, Any]:
    """The pair assets' request functions by asset name, in graph order."""
    return {
        "token_pack": token_pack_request,
        "checkpoint": checkpoint_request,
        "eval_report": eval_report_request,
        "adapter": adapter_request,
    }
