"""What a store lacks for trustworthy gates: found by reading records, before any training."""

from collections.abc import Iterator
from dataclasses import dataclass

from ft_assets.control.identity import raw_dataset
from ft_assets.control.planning.provable import holdout_rows, no_drop, suites_shown, task_gain
from ft_assets.control.recipes.stored import get_recipe, list_recipes
from ft_assets.records.names import DATASET
from ft_assets.records.retired_datasets import retired_datasets
from ft_assets.records.retired_recipes import retired_recipes
from ft_assets.settings.catalogue.gates.regression import BenchmarkRegressionGate
from ft_assets.settings.catalogue.gates.task_gain import TaskGainGate
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.shipped_suites import BOOKS, MADE_SAFETY
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.suites.registered import items_of, list_suites, suites_of
from ft_resources.artifacts import Artifacts
from ft_resources.errors import Deleted, UserError


@dataclass(frozen=True, kw_only=True, slots=True)
class Lack:
    """One thing that is missing or too small.

    Args:
        of: the store, a dataset version or a recipe.
        what: what is missing and what follows, as a sentence.
        remedy: the command that corrects it, or the first step.
    """

    of: str
    what: str
    remedy: str


def find_lacks(artifacts: Artifacts, tenant: str = "") -> list[Lack]:
    """What the store lacks, then the newest version of each dataset, then each recipe that is not retired; only a
    tenant's and the shared ones if ``tenant`` is given."""
    return [*lacks_of_store(artifacts), *_of_datasets(artifacts, tenant), *_of_recipes(artifacts, tenant)]


def lacks_of_store(artifacts: Artifacts) -> Iterator[Lack]:
    """Suites that every recipe needs and that are missing or too small."""
    store = artifacts.store
    known = list_suites(store)
    sizes = {key: items_of(store, key) for key in suites_of(store, known, "suite")}
    install = "ft suite install general (MMLU, GSM8K, TruthfulQA); without a network: ft suite install offline"
    if sizes.keys() <= {BOOKS}:
        what = f"No general suite is registered but {BOOKS}, which comes with ft: it detects forgetting of prose alone."
        yield Lack(of="store", what=what, remedy=install)
    else:
        largest = max(sizes, key=lambda key: sizes[key])
        found = no_drop(largest, sizes[largest], BenchmarkRegressionGate())
        if not found.enough:
            yield Lack(of="store", what=f"No general suite is large enough. {found.in_words}", remedy=install)
    if set(suites_of(store, known, "safety")) <= {MADE_SAFETY}:
        what = f"No safety suite is registered but {MADE_SAFETY}, made locally: its requests are short and alike."
        yield Lack(of="store", what=what, remedy="ft suite install safety (AdvBench, HarmBench, XSTest)")


def _of_datasets(artifacts: Artifacts, tenant: str) -> Iterator[Lack]:
    store = artifacts.store
    newest: dict[tuple[str, str], DatasetKey] = {}
    gone = retired_datasets(store)
    for key in map(DatasetKey.parse, DATASET.keys(store)):
        name = key.tenant, key.name
        if tenant in ("", key.tenant) and str(key) not in gone:
            newest[name] = max(key, newest.get(name, key), key=lambda each: each.version)
    for _, key in sorted(newest.items()):
        try:
            yield from lacks_of_dataset(artifacts, str(key))
        except Deleted:
            continue
        except UserError as error:
            # One broken record hides no others.
            yield Lack(of=str(key), what=f"It cannot be read: {error.what}.", remedy=error.remedy)


def lacks_of_dataset(artifacts: Artifacts, dataset: str) -> list[Lack]:
    """Shortcomings of one version. Raises UserError for one that is unknown, deleted or damaged."""
    found, key, suites = list[Lack](), DatasetKey.parse(dataset), set(list_suites(artifacts.store))
    policy = raw_dataset(artifacts, dataset).manifest.identity["params"]["policy"]
    held = holdout_rows(artifacts, dataset)
    add = f"ft dataset add FILE --name {key.tenant}.{key.name} --policy dataset.yaml"
    if unseen := sorted(suites - set(policy["contamination"]["suites"])):
        # With "all" the same rows would stay the same version; with the suites' names they become another one.
        every = ", ".join(sorted(suites | set(policy["contamination"]["suites"])))
        what = f"It was not screened against {', '.join(unseen)}: their test items may be among its rows."
        remedy = f"{add}, with contamination: {{suites: [{every}]}} in it"
        found.append(Lack(of=dataset, what=what, remedy=remedy))
    if held is not None and (shown := task_gain(held, TaskGainGate())).hopeless:
        what = f"Its holdout of {shown.samples:,} rows is too small: {shown.shows.partition(',')[0]}."
        found.append(Lack(of=dataset, what=what, remedy=f"{add}, with more rows or a larger split: {{holdout: …}}"))
    return found


def _of_recipes(artifacts: Artifacts, tenant: str) -> Iterator[Lack]:
    store = artifacts.store
    gone = retired_recipes(store)
    for key in list_recipes(store):
        stored = get_recipe(store, key)
        recipe, gates = stored.recipe, stored.recipe.gates
        owner = recipe.recipe_key.tenant
        if key in gone or stored.trial is not None or gates == NO_GATES or tenant not in ("", owner or tenant):
            continue
        edit = f"ft recipe show {key} --yaml > next.yaml; edit it; ft recipe add next.yaml"
        if gates.safety is None and "safety" not in gates.model_fields_set:
            what = "It sets no safety gate, which production requires."
            yield Lack(of=key, what=what, remedy=f"{edit} (gates: {{safety: {{}}}}; null disables the gate)")
        for found in suites_shown(artifacts, recipe, gates):
            if found.hopeless:
                yield Lack(
                    of=key,
                    what=f"Even a good candidate will rarely pass. {found.in_words}",
                    remedy=f"{edit} (larger suites)",
                )
