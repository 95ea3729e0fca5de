"""State of a sweep's trials on a dataset, resolved from the store as the assets do."""

import math
from dataclasses import dataclass

from ft_assets.control import identity
from ft_assets.control.recipes.stored import StoredRecipe, get_recipe
from ft_assets.control.recipes.trials import Trial
from ft_assets.control.sweeps.trial_retirement import mark_decided
from ft_assets.records.sweep_decision import (
    FINAL,
    REFUSED,
    Decision,
    SweepUndecided,
    TrialResult,
    choose,
    find_decision,
    record_decision,
)
from ft_assets.settings.keys import DatasetKey
from ft_resources.artifacts import Artifact, Artifacts
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.errors import BadRecipe, HeldForReview, MissingInput
from ft_resources.outcomes import Outcome


@dataclass(frozen=True, kw_only=True)
class TrialState:
    """A trial's state: ``result`` once it has finally ended, before that None."""

    trial: Trial
    result: TrialResult | None


def trial_states(artifacts: Artifacts, dataset_key: str, sweep_key: str) -> list[TrialState]:
    """Every trial of a sweep in order; empty for other recipes."""
    stored = get_recipe(artifacts.store, sweep_key)
    return [TrialState(trial=trial, result=_result(artifacts, dataset_key, trial)) for trial in stored.trials]


def missing_trials(artifacts: Artifacts, dataset_key: str, sweep_key: str) -> tuple[str, ...]:
    """Keys of the trials that a sweep waits for; empty once it is decided, and for other recipes."""
    if sweep_decision(artifacts, dataset_key, sweep_key) is not None:
        return ()
    states = trial_states(artifacts, dataset_key, sweep_key)
    return tuple(state.trial.key for state in states if state.result is None)


def sweep_decision(artifacts: Artifacts, dataset_key: str, sweep_key: str) -> Decision | None:
    """The recorded decision; None if undecided or if the recipe is not a sweep."""
    stored = get_recipe(artifacts.store, sweep_key)
    if not stored.trials:
        return None
    return find_decision(artifacts.store, identity.decision_path_of(artifacts, dataset_key, stored))


def decide(artifacts: Artifacts, dataset_key: str, sweep_key: str) -> Decision | None:
    """The decision of a sweep, recorded now if all its trials have ended; None if the recipe is not a sweep.

    Raises SweepUndecided, which names the trials to train, and MissingInput for missing upstream artifacts.
    """
    stored = get_recipe(artifacts.store, sweep_key)
    if not stored.trials:
        return None
    path = identity.decision_path_of(artifacts, dataset_key, stored)
    found = find_decision(artifacts.store, path)
    if found is None:
        results = [state.result for state in trial_states(artifacts, dataset_key, sweep_key) if state.result]
        if len(results) < len(stored.trials):
            raise SweepUndecided(dataset_key, sweep_key, missing_trials(artifacts, dataset_key, sweep_key))
        found = record_decision(artifacts.store, path, _decision(artifacts, dataset_key, stored, results))
    mark_decided(artifacts.store, sweep_key)
    return found


def _decision(artifacts: Artifacts, dataset_key: str, stored: StoredRecipe, results: list[TrialResult]) -> Decision:
    trials = tuple(results)
    return Decision(
        sweep=stored.recipe.key,
        recipe_digest=stored.digest,
        dataset=str(DatasetKey.parse(dataset_key)),
        dataset_digest=identity.approved_dataset(artifacts, dataset_key).digest,
        trials=trials,
        winner=choose(trials),
    )


def _result(artifacts: Artifacts, dataset_key: str, trial: Trial) -> TrialResult | None:
    try:
        request = identity.checkpoint_request(artifacts, dataset_key, trial.key)
    except (MissingInput, HeldForReview):
        return None
    except BadRecipe:
        # These settings cannot work with this data and base, and never will.
        return _ended(trial, REFUSED)
    found = artifacts.find(request.address)
    if found is not None:
        return _trained(trial, found)
    attempts = attempts_at(artifacts.store, request.address)
    ending = final_ending(attempts)
    return _ended(trial, ending, str(request.address)) if ending else None


def final_ending(attempts: list[Attempt]) -> str:
    """The final ending of work without a result; "" if it may still succeed."""
    last = attempts[-1].ending() if attempts else None
    if last is None:
        return ""
    if last.outcome is Outcome.USER_ERROR and (last.error or {}).get("type") == BadRecipe.__name__:
        return REFUSED
    if last.outcome not in FINAL or (last.outcome is Outcome.OUT_OF_MEMORY and _may_retry(attempts)):
        return ""
    return str(last.outcome)


def _may_retry(attempts: list[Attempt]) -> bool:
    """Whether an out-of-memory attempt is retried: on a larger GPU, or once with half the micro-batch, not below 1."""
    spec = attempts[-1].spec()
    if spec is None:
        return False
    micro = spec.params.get("training", {}).get("micro_batch_size", 1)
    divisor = spec.runtime.get("micro_batch_divisor", 1)
    return bool(spec.resources.larger_gpu_type or (divisor == 1 and micro > 1))


def _ended(trial: Trial, ending: str, address: str = "") -> TrialResult:
    return TrialResult(key=trial.key, number=trial.number, values=trial.values, address=address, ending=ending)


def _trained(trial: Trial, checkpoint: Artifact) -> TrialResult:
    facts = checkpoint.facts
    # A validation whose loss is not finite has none, so the last one may precede the end.
    final = [loss for step, loss in facts.get("validation_loss") or [] if step == facts.get("steps")]
    loss = float(final[-1]) if final and final[-1] is not None else math.nan
    return TrialResult(
        key=trial.key,
        number=trial.number,
        values=trial.values,
        address=str(checkpoint.address),
        loss=loss if math.isfinite(loss) else None,
        steps=facts.get("steps"),
        tokens_per_s=facts.get("tokens_per_s"),
    )
