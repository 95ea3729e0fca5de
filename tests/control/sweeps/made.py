"""A sweep of three learning rates on a GPU, and trainings of its trials that nobody ran."""

from dataclasses import replace
from typing import Any

import yaml

from ft_assets.control import identity
from ft_assets.control.registry.register import register_recipe
from ft_resources.artifacts import Artifact
from ft_resources.attempts import Attempt, attempts_at
from ft_resources.outcomes import Outcome
from tests.control.submissions.estimate_world import DATASET, World
from tests.made import spec_of

SWEEP = "rates.v1"
RATES = {"search": "grid", "parameters": {"training.learning_rate": [1e-3, 1e-4, 1e-5]}}
TRIALS = ("rates-t01.v1", "rates-t02.v1", "rates-t03.v1")


def make_sweep(world: World, key: str = SWEEP, *, sweep: dict[str, Any] = RATES, **training: Any) -> str:
    """Register a sweep on one H100 whose dataset, base and pack are there."""
    path = world.project.recipe(
        key,
        training={"max_steps": None, "epochs": 1, "global_batch_size": 16, "micro_batch_size": 4, **training},
        packing={"max_length": 4096},
        hardware={"gpus": 1, "gpu_type": "H100"},
        sweep=sweep,
    )
    recipe = yaml.safe_load(path.read_text())
    for swept in sweep["parameters"]:
        section, name = swept.split(".")
        recipe.get(section, {}).pop(name, None)
    path.write_text(yaml.safe_dump(recipe))
    registered = register_recipe(world.store, path, actor="ann")
    world.pack(registered.key)
    return registered.key


def trained(world: World, trial: str, *losses: float | None, dataset: str = DATASET) -> Artifact:
    """A finished training of a trial with these validation losses, the last one at its end; None is no number."""
    request = identity.checkpoint_request(world.artifacts, dataset, trial)
    first = 21 - len(losses)
    validation = [[step, loss] for step, loss in enumerate(losses, start=first) if loss is not None]
    return world.make(request, {"validation_loss": validation, "steps": 20, "tokens_per_s": 1000.0})


def ended(
    world: World,
    trial: str,
    outcome: Outcome,
    *,
    divisor: int = 1,
    larger: str | None = None,
    error: str = "WorkFailed",
) -> Attempt:
    """One more attempt at a trial, which ended so."""
    request = identity.checkpoint_request(world.artifacts, DATASET, trial)
    attempt = Attempt(world.store, request.address, len(attempts_at(world.store, request.address)) + 1)
    attempt.claim("ann")
    asked = replace(
        request,
        runtime={**request.runtime, "micro_batch_divisor": divisor},
        resources=request.resources.model_copy(update={"larger_gpu_type": larger}),
    )
    attempt.write_spec(spec_of(world.store, asked, attempt.number))
    attempt.record_ending(outcome, {"type": error, "what": "row 7 says 4111", "where": "", "remedy": ""})
    return attempt
