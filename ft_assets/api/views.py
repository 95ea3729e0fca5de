"""Rebuild the views from the store: the orchestrator's partitions and materializations, and MLflow's registry."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field

from ft_assets.api.defaults import Known, Orchestrator, orchestrator_or_default, store_or_default
from ft_assets.control import identity
from ft_assets.control.lines.lines import list_lines
from ft_assets.control.lines.mlflow_registry import note_line, note_ungated, register_adapter
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.control.submissions.status import tenants
from ft_assets.control.submissions.submit import list_among_jobs
from ft_assets.control.sweeps.mlflow_comparison import compare
from ft_assets.control.sweeps.trial_retirement import listed_recipes
from ft_assets.records.names import DATASET
from ft_assets.records.retired_datasets import retired_datasets
from ft_assets.records.submissions import all_submissions
from ft_assets.records.sweep_decision import all_decisions
from ft_assets.settings.ungated import UNGATED
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import Deleted, HeldForReview, MissingInput, UserError
from ft_resources.store import Store
from ft_resources.tracking import Mirror, default_uri, shared_mirror, start_from_spec

_FLUSH_S = 600.0
Finders = dict[str, Callable[..., Artifact]]
_OF_DATASET: Finders = {"raw_dataset": identity.raw_dataset, "dataset": identity.dataset}
_OF_RECIPE: Finders = {"base_model": identity.base_model, "baseline_report": identity.baseline_report}
_OF_TRIAL: Finders = {"token_pack": identity.token_pack, "checkpoint": identity.checkpoint}
_OF_PAIR: Finders = {**_OF_TRIAL, "eval_report": identity.eval_report, "adapter": identity.exported}


@dataclass(frozen=True, kw_only=True)
class Mirrored:
    """What MLflow has now; ``problem`` is empty on success."""

    runs: int
    adapters: int
    problem: str


@dataclass(kw_only=True)
class Rebuilt:
    """What was added; ``problems`` are sentences about what could not be read, ``mirrored`` is None without MLflow."""

    partitions: int
    materializations: int
    known: int = 0
    jobs: int = 0
    problems: list[str] = field(default_factory=list)
    mirrored: Mirrored | None = None


def rebuild(*, store: Store | None = None, orchestrator: Orchestrator | None = None) -> Rebuilt:
    """Show everything that the store knows, in the orchestrator, in MLflow and among the jobs; what is shown already is
    left as it is.

    What cannot be read is named, and the rest goes on. Raises StoreUnavailable.
    """
    store, shown = store_or_default(store), orchestrator_or_default(orchestrator)
    done = Rebuilt(partitions=0, materializations=0)
    datasets, recipes = _dataset_keys(store), listed_recipes(store)
    done.partitions = shown.show_all_keys(datasets=datasets, recipes=recipes)

    def counted() -> Iterator[Known]:
        for each in known_artifacts(store, done.problems):
            done.known += 1
            yield each

    done.materializations = shown.show_artifacts(counted())
    # Submissions of versions of the platform that did not list them.
    asked = (each for tenant in tenants(store) for each in all_submissions(store, tenant))
    done.jobs = sum(list_among_jobs(store, each) for each in asked)
    if uri := default_uri():
        done.mirrored = rebuild_tracking(store, shared_mirror(uri))
    return done


def rebuild_tracking(store: Store, mirror: Mirror) -> Mirrored:
    """Mirror every finished training, register every adapter and bring every line's aliases up to date with its log.
    Existing runs and versions in MLflow are left as they are; deleted artifacts are left out."""
    artifacts = Artifacts(store)
    runs: set[str] = set()
    adapters = 0
    problems = []
    # The trials of decided sweeps too, whose keys may be retired.
    for decision in all_decisions(store):
        trained = [Address.parse(trial.address) for trial in decision.trials if not trial.ending]
        runs |= {str(address) for address in trained if _mirror_training(store, mirror, address)}
        compare(mirror, decision)
    for known in known_artifacts(store, []):
        address = known.artifact.address
        if known.asset == "checkpoint" and str(address) not in runs and _mirror_training(store, mirror, address):
            runs.add(str(address))
        if address.asset == UNGATED:
            note_ungated(mirror, known.artifact)
        elif known.asset == "adapter":
            try:
                register_adapter(mirror, artifacts, known.artifact)
                adapters += 1
            except UserError as error:
                problems.append(str(error))
    for line in list_lines(store):
        try:
            note_line(mirror, artifacts, line)
        except UserError as error:
            problems.append(str(error))
    problem = "\n".join(filter(None, [mirror.flush(_FLUSH_S), *problems]))
    return Mirrored(runs=len(runs), adapters=adapters, problem=problem)


def _mirror_training(store: Store, mirror: Mirror, address: Address) -> bool:
    """Mirror the finished training at ``address``; False if its provenance is unknown."""
    attempts = attempts_at(store, address)
    if not attempts:
        return False
    start_from_spec(mirror, attempts[-1])
    for attempt in attempts:
        mirror.steps(str(address), attempt.steps())
    mirror.run_finished(str(address), "FINISHED")
    return True


def known_artifacts(store: Store, problems: list[str]) -> Iterator[Known]:
    """Every artifact that current names, code and submissions resolve to, upstream first. Unreadable records are added
    to ``problems`` and skipped.
    """
    artifacts = Artifacts(store)

    def known(finders: Finders, keys: tuple[str, ...], above: dict[str, Artifact]) -> Iterator[Known]:
        for asset, find in finders.items():
            try:
                artifact = find(artifacts, *keys)
            except (MissingInput, HeldForReview, Deleted):
                continue
            except UserError as error:
                problems.append(f"{asset} of {'|'.join(keys)}: {error}")
                continue
            yield Known(asset=asset, keys=keys, artifact=artifact, above=dict(above))
            above[asset] = artifact

    of_dataset: dict[str, dict[str, Artifact]] = defaultdict(dict)
    of_recipe: dict[str, dict[str, Artifact]] = defaultdict(dict)
    for key in _dataset_keys(store):
        yield from known(_OF_DATASET, (key,), of_dataset[key])
    listed = listed_recipes(store)
    for key in listed:
        yield from known(_OF_RECIPE, (key,), of_recipe[key])
    for dataset, recipe in _asked_pairs(store, listed):
        # A trial of a sweep is only trained.
        finders = _OF_TRIAL if get_recipe(store, recipe).trial else _OF_PAIR
        yield from known(finders, (dataset, recipe), {**of_dataset[dataset], **of_recipe[recipe]})


def _asked_pairs(store: Store, listed: Collection[str]) -> Iterator[tuple[str, str]]:
    """The pairs that were ever asked for, those of a sweep's listed trials before its own: every product of keys could
    mean hundreds of thousands."""
    asked = {(item.dataset, item.recipe) for tenant in tenants(store) for item in all_submissions(store, tenant)}
    for dataset, recipe in sorted(asked):
        yield from ((dataset, trial.key) for trial in get_recipe(store, recipe).trials if trial.key in listed)
        yield dataset, recipe


def _dataset_keys(store: Store) -> list[str]:
    return sorted(set(DATASET.keys(store)) - retired_datasets(store))
