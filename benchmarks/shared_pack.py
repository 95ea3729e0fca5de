"""What a second recipe spends on a pack that it shares: the asset alone, in an embedded project with the demo's base.

The recipes differ in learning rate and rank, which touch no token. Timed is the asset's whole Dagster run in this
process, the first time with the worker that makes the pack.
"""

import json
import shutil
import tempfile
import time
from pathlib import Path

import dagster as dg
import yaml

import ft_assets.demo
from benchmarks.table import Figure
from ft_assets.control import identity
from ft_assets.control.registry.adding import add_dataset
from ft_assets.control.registry.register import register_recipe
from ft_assets.graph.assets.packs import token_pack
from ft_assets.graph.listed_keys import list_keys
from ft_assets.graph.partitions import pair_key, pair_partitions
from ft_assets.settings.tenants import NO_TENANTS
from ft_assets.workers.suites.suites import add_suite
from ft_resources.artifacts import Artifacts
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.store_marker import open_store

_ROWS = 2_000
# Of several recipes after the first one the quickest counts, so that a busy moment does not.
_RANKS = (8, 16, 32, 64)
_DATASET = "acme.sums"
_DEMO = Path(ft_assets.demo.__file__).parent


def measure() -> dict[str, float]:
    """Seconds that the first recipe and another one spend on the pack, and a run of an asset that does nothing."""
    folder = Path(tempfile.mkdtemp(prefix="ft-benchmark-"))
    try:
        return _measure(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def figures(found: dict[str, float]) -> list[Figure]:
    """Table rows of what ``measure`` found."""
    seconds = found["shared_pack_s"]
    return [
        Figure(
            key="shared_pack_s",
            what=f"a second recipe on a pack that it shares (the first spent {found['first_pack_s']:.0f} s), s",
            ours=seconds,
            peer=found["empty_run_s"],
            peer_is="Dagster's run of an asset that does nothing",
            goal="< 1",
            met=seconds < 1,
        )
    ]


def _measure(folder: Path) -> dict[str, float]:
    store = open_store(str(folder / "store"), create=True)
    add_suite(store, _DEMO / "suites" / "book_cloze", "book-cloze.v1", "benchmark")
    version = add_dataset(store, NO_TENANTS, _rows(folder / "rows.jsonl"), _DATASET, None, actor="benchmark")
    keys = [f"rank{rank}.v1" for rank in _RANKS]
    for key, rank in zip(keys, _RANKS, strict=True):
        register_recipe(store, _recipe(folder, key, 1e-3 / rank, rank), actor="benchmark")
    artifacts, execution = Artifacts(store), LauncherResource().execution(store)
    execution.run(identity.dataset_request(artifacts, str(version.key)), actor="benchmark")
    execution.run(identity.base_model_request(artifacts, keys[0]), actor="benchmark")
    with dg.instance_for_test() as instance:
        for key in keys:
            list_keys(instance, dataset=str(version.key), recipe=key)
        pairs = [pair_key(str(version.key), key) for key in keys]
        first, *others = (_seconds(token_pack, instance, store.url, pair) for pair in pairs)
        empty = min(_seconds(_nothing, instance, store.url, pair) for pair in pairs)
    return {"shared_pack_s": min(others), "first_pack_s": first, "empty_run_s": empty}


@dg.asset(partitions_def=pair_partitions)
def _nothing() -> None:
    return None


def _seconds(asset: dg.AssetsDefinition, instance: dg.DagsterInstance, store_url: str, pair: str) -> float:
    started = time.perf_counter()
    dg.materialize(
        [asset],
        partition_key=pair,
        instance=instance,
        resources={"store": StoreResource(url=store_url), "launcher": LauncherResource()},
    )
    return time.perf_counter() - started


def _rows(path: Path) -> Path:
    """Conversations about sums, no two alike."""
    with path.open("w") as file:
        for number in range(_ROWS):
            one, other = number * 7 + 3, number * 13 + 1
            turns = (
                ("user", f"What is {one} plus {other}, and what is it good for?"),
                ("assistant", f"{one} and {other} make {one + other}. Row {number} of this set is good for timing."),
            )
            messages = [{"role": role, "content": content} for role, content in turns]
            file.write(json.dumps({"messages": messages}) + "\n")
    return path


def _recipe(folder: Path, key: str, rate: float, rank: int) -> Path:
    """The demo's recipe with another learning rate and rank, beside a copy of its base."""
    if not (folder / "base").exists():
        shutil.copytree(_DEMO / "base", folder / "base")
    recipe = yaml.safe_load((_DEMO / "recipe.yaml").read_text())
    recipe["key"] = key
    recipe["lora"]["rank"] = rank
    recipe["training"]["learning_rate"] = rate
    path = folder / f"{key}.yaml"
    path.write_text(yaml.safe_dump(recipe))
    return path
