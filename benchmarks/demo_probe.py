"""Measured inside the demo's own environment and state: training's start, what cached assets cost, and red checks."""

import dataclasses
import json
import time
from collections.abc import Callable, Collection
from functools import partial

import dagster as dg

from ft_assets import api
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
from ft_resources.store_marker import open_store

DATASET, RECIPE = "demo.docs.v1", "docs-qa.v1"
PASSED = "SUCCEEDED"
_REPEATS = 5


def main() -> None:
    store = open_store(default_store_url())
    artifacts = Artifacts(store)
    figures = {
        "train_s": float(identity.checkpoint(artifacts, DATASET, RECIPE).facts["seconds"]),
        "step_to_first_step_s": _seconds_to_first_step(store, artifacts),
        **_cached_asset_seconds(store),
        "wrong_red_checks": wrong_red_checks(dg.DagsterInstance.get(), partial(_failed_gates, store)),
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


def wrong_red_checks(instance: dg.DagsterInstance, failed: Callable[[str], Collection[str]]) -> int:
    """How many checks of how many partitions Dagster shows as anything but passed, though no gate failed there.

    ``failed`` tells the gates that a pair failed, by the evidence in the store.
    """
    checks = [
        spec.key for each in build_definitions(default_store_url()).asset_checks or () for spec in each.check_specs
    ]
    shown = instance.event_log_storage.get_asset_check_partition_info(checks)
    red = [(each.check_key, each.partition_key or "") for each in shown if each.latest_execution_status.value != PASSED]
    gates = dg.AssetKey("eval_report")
    return sum(key.asset_key != gates or key.name not in failed(partition) for key, partition in red)


def _failed_gates(store: Store, pair: str) -> list[str]:
    verdicts = api.show_gates(*pair.split("|"), store=store).verdicts
    return [verdict.gate for verdict in verdicts if verdict.outcome == "fail"]


if __name__ == "__main__":
    main()
