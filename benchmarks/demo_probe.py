"""Measured inside the demo's own environment and state: training's start, and what cached assets cost."""

import dataclasses
import json
import time

import dagster as dg

from ft_assets.control import identity
from ft_assets.control.submissions.plan import Stage
from ft_assets.definitions import build_definitions
from ft_assets.graph.listed_keys import list_keys
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.environment import default_store_url
from ft_resources.execution import Execution
from ft_resources.launchers.local import LocalLauncher
from ft_resources.store import Store

DATASET, RECIPE = "demo.docs.v1", "docs-qa.v1"
_REPEATS = 5


def main() -> None:
    store = Store(default_store_url())
    artifacts = Artifacts(store)
    figures = {
        "train_s": float(identity.checkpoint(artifacts, DATASET, RECIPE).facts["seconds"]),
        "step_to_first_step_s": _seconds_to_first_step(store, artifacts),
        **_cached_asset_seconds(store),
    }
    print(json.dumps(figures))


def _seconds_to_first_step(store: Store, artifacts: Artifacts) -> float:
    """From asking for a checkpoint whose inputs are cached to its first optimizer step, by the step's own clock."""
    request = identity.checkpoint_request(artifacts, DATASET, RECIPE)
    # Another seed and two steps: another checkpoint over the same inputs.
    training = {**request.params["training"], "seed": 4242, "max_steps": 2}
    request = dataclasses.replace(request, params={**request.params, "training": training})
    start = time.time()
    Execution(store=store, launcher=LocalLauncher()).run(request, actor="benchmark")
    return float(attempts_at(store, request.address)[-1].steps()[0]["at"]) - start


def _cached_asset_seconds(store: Store) -> dict[str, float]:
    """Seconds per asset of a run of the four pair assets when all are cached, and when they do nothing at all."""

    def nothing(name: str) -> dg.AssetsDefinition:
        @dg.asset(name=name)
        def empty() -> dg.MaterializeResult:
            return dg.MaterializeResult()

        return empty

    with dg.instance_for_test() as instance:
        list_keys(instance, dataset=DATASET, recipe=RECIPE)
        job = build_definitions(store.url).resolve_job_def(Stage.TRAIN_PAIR.value)
        empty_assets = [nothing(f"empty_{number}") for number in range(4)]
        cached, empty = [], []
        for _ in range(_REPEATS):
            start = time.monotonic()
            assert job.execute_in_process(instance=instance, partition_key=f"{DATASET}|{RECIPE}").success
            cached.append((time.monotonic() - start) / 4)
            start = time.monotonic()
            assert dg.materialize(empty_assets, instance=instance).success
            empty.append((time.monotonic() - start) / 4)
    return {"cached_asset_s": min(cached), "empty_asset_s": min(empty)}


if __name__ == "__main__":
    main()
