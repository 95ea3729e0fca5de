"""The views again from the store: Dagster's partitions and materializations, MLflow's runs and registered adapters."""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import dagster as dg

from ft_assets import identity
from ft_assets.adapters.lines import list_lines
from ft_assets.adapters.registry import note_line, register_adapter
from ft_assets.glue import common_metadata
from ft_assets.identity.versions import CODE_VERSIONS
from ft_assets.recipes.register import get_recipe
from ft_assets.retention.retired import retired_datasets
from ft_assets.submissions.record import all_submissions
from ft_assets.submissions.run import register_partitions
from ft_assets.submissions.status import tenants
from ft_assets.sweeps.compared import compare
from ft_assets.sweeps.decision import all_decisions
from ft_assets.sweeps.retired import listed_recipes
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import Deleted, HeldForReview, MissingInput, UserError
from ft_resources.store import Store
from ft_resources.tracking import Mirror, start_from_spec

FLUSH_S = 600.0
Finders = dict[str, Callable[..., Artifact]]
_OF_DATASET: Finders = {"raw_dataset": identity.raw_dataset, "dataset": identity.dataset}
_OF_RECIPE: Finders = {"base_model": identity.base_model, "baseline_report": identity.baseline_report}
_OF_PAIR: Finders = {
    "token_pack": identity.token_pack,
    "checkpoint": identity.checkpoint,
    "eval_report": identity.eval_report,
    "adapter": identity.adapter,
}
# A trial of a sweep is trained, and nothing more.
_OF_TRIAL: Finders = {name: _OF_PAIR[name] for name in ("token_pack", "checkpoint")}
# Tags by which Dagster knows what a materialization holds and was made of.
_DATA, _CODE, _INPUT = "dagster/data_version", "dagster/code_version", "dagster/input_data_version"


@dataclass(frozen=True, kw_only=True)
class Known:
    """An artifact that keys (a dataset's, a recipe's, or both) lead to today, and those of the assets it depends on."""

    asset: str
    keys: tuple[str, ...]
    artifact: Artifact
    parents: dict[str, Artifact]

    @property
    def partition(self) -> str:
        """The Dagster partition key."""
        if len(self.keys) == 1:
            return self.keys[0]
        return dg.MultiPartitionKey({"dataset": self.keys[0], "recipe": self.keys[1]})


@dataclass(kw_only=True)
class Rebuilt:
    """What was added to Dagster; ``problems`` are sentences about what could not be read."""

    partitions: int = 0
    materializations: int = 0
    known: int = 0
    problems: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Mirrored:
    """What MLflow has now; ``problem`` is empty where all went well."""

    runs: int
    adapters: int
    problem: str


def rebuild_dagster(store: Store, instance: dg.DagsterInstance) -> Rebuilt:
    """Add the partitions and materializations that the store knows and Dagster does not."""
    done = Rebuilt()
    for dimension, keys in (("dataset", _dataset_keys(store)), ("recipe", listed_recipes(store))):
        missing = set(keys) - set(instance.get_dynamic_partitions(dimension))
        done.partitions += len(missing)
        for key in sorted(missing):
            register_partitions(instance, **{dimension: key})
    for known in known_artifacts(store, done.problems):
        done.known += 1
        done.materializations += _materialize(instance, known)
    return done


def rebuild_tracking(store: Store, mirror: Mirror) -> Mirrored:
    """Mirror every finished training, register every adapter and bring every line's aliases up to its log; what MLflow
    has of runs and versions is left as it is, and what was deleted is left out."""
    artifacts = Artifacts(store)
    runs: set[str] = set()
    adapters = 0
    # The trials of decided sweeps too, whose keys may be retired.
    for decision in all_decisions(store):
        trained = [Address.parse(trial.address) for trial in decision.trials if not trial.ending]
        runs |= {str(address) for address in trained if _mirror_training(store, mirror, address)}
        compare(mirror, decision)
    for known in known_artifacts(store, []):
        address = known.artifact.address
        if known.asset == "checkpoint" and str(address) not in runs and _mirror_training(store, mirror, address):
            runs.add(str(address))
        if known.asset == "adapter":
            register_adapter(mirror, artifacts, known.artifact)
            adapters += 1
    problems = _mirror_lines(artifacts, mirror)
    problem = "\n".join(filter(None, [mirror.flush(FLUSH_S), *problems]))
    return Mirrored(runs=len(runs), adapters=adapters, problem=problem)


def _mirror_lines(artifacts: Artifacts, mirror: Mirror) -> list[str]:
    """Bring every line's aliases up to its log; sentences about logs that cannot be read."""
    problems = []
    for line in list_lines(artifacts.store):
        try:
            note_line(mirror, artifacts, line)
        except UserError as error:
            problems.append(str(error))
    return problems


def _mirror_training(store: Store, mirror: Mirror, address: Address) -> bool:
    """Mirror the finished training at ``address``; False where nobody knows how it came about."""
    attempts = attempts_at(store, address)
    if not attempts:
        return False
    start_from_spec(mirror, attempts[-1])
    for attempt in attempts:
        mirror.steps(str(address), attempt.steps())
    mirror.run_finished(str(address), "FINISHED")
    return True


def known_artifacts(store: Store, problems: list[str]) -> Iterator[Known]:
    """Every artifact that today's names, code and submissions lead to, upstream first.

    What cannot be read is added to ``problems``, and the rest goes on.
    """
    artifacts, parents = Artifacts(store), _parents()

    def known(finders: Finders, keys: tuple[str, ...], above: dict[str, Artifact]) -> Iterator[Known]:
        for asset, find in finders.items():
            try:
                artifact = find(artifacts, *keys)
            except (MissingInput, HeldForReview, Deleted):
                continue
            except UserError as error:
                problems.append(f"{asset} of {'|'.join(keys)}: {error}")
                continue
            above[asset] = artifact
            present = {name: above[name] for name in parents[asset] if name in above}
            yield Known(asset=asset, keys=keys, artifact=artifact, parents=present)

    of_dataset: dict[str, dict[str, Artifact]] = defaultdict(dict)
    of_recipe: dict[str, dict[str, Artifact]] = defaultdict(dict)
    for key in _dataset_keys(store):
        yield from known(_OF_DATASET, (key,), of_dataset[key])
    listed = listed_recipes(store)
    for key in listed:
        yield from known(_OF_RECIPE, (key,), of_recipe[key])
    for dataset, recipe in _pairs(store):
        for trial in get_recipe(store, recipe).trials:
            if trial.key in listed:
                yield from known(_OF_TRIAL, (dataset, trial.key), {**of_dataset[dataset], **of_recipe[trial.key]})
        yield from known(_OF_PAIR, (dataset, recipe), {**of_dataset[dataset], **of_recipe[recipe]})


def _parents() -> dict[str, list[str]]:
    """Names of the assets that each asset depends on."""
    # Imported here: definitions import the sensors, which import this package.
    from ft_assets.definitions import defs

    graph = defs.resolve_asset_graph()
    return {
        key.to_user_string(): sorted(parent.to_user_string() for parent in graph.get(key).parent_keys)
        for key in graph.get_all_asset_keys()
    }


def _dataset_keys(store: Store) -> list[str]:
    return sorted({name.removesuffix(".json") for name in store.names("names/dataset")} - retired_datasets(store))


def _pairs(store: Store) -> list[tuple[str, str]]:
    """The pairs that were ever asked for. Trying every product of keys could mean hundreds of thousands."""
    found = {(item.dataset, item.recipe) for tenant in tenants(store) for item in all_submissions(store, tenant)}
    return sorted(found)


def _materialize(instance: dg.DagsterInstance, known: Known) -> bool:
    """Report the artifact as the partition's materialization, unless Dagster's last one is of it already."""
    asset, partition = dg.AssetKey(known.asset), known.partition
    last = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=asset, asset_partitions=[partition]), limit=1
    ).records
    digest = known.artifact.digest
    if last and last[0].asset_materialization and (last[0].asset_materialization.tags or {}).get(_DATA) == digest:
        return False
    # Dagster compares these with the parents' versions to tell whether something is stale.
    inputs = {f"{_INPUT}/{name}": parent.digest for name, parent in known.parents.items()}
    instance.report_runless_asset_event(
        dg.AssetMaterialization(
            asset_key=asset,
            partition=partition,
            metadata=common_metadata(known.artifact),
            tags={_DATA: digest, _CODE: CODE_VERSIONS[known.asset], **inputs},
        )
    )
    return True
