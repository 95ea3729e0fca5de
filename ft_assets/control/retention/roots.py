"""References to artifacts: records that mention them, keys and pairs as resolved today, and running attempts."""

import re
from collections.abc import Iterator
from functools import partial

from ft_assets.control import identity
from ft_assets.control.erasure.plan import Situation, plan_erasure
from ft_assets.control.recipes.stored import get_recipe, list_recipes
from ft_assets.records.submissions import all_submissions
from ft_resources.artifacts import Address, Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.errors import StoreUnavailable, UserError
from ft_resources.remembered import Remembered
from ft_resources.store import Store

# A tenant's records of decisions and notices. Usage and erasures are left out: they name what is long gone.
_FOLDERS = ("lines", "rollouts", "proposals", "submissions", "rejections", "carries", "sweeps", "reviews", "tombstones")
_ADDRESS = re.compile(rb"[a-z0-9-]+/[a-z0-9_]+/[0-9a-f]{64}")
# Cache by path and modification time.
_MENTIONED: Remembered[tuple[str, ...]] = Remembered()


def roots(artifacts: Artifacts, situation: Situation) -> set[str]:
    """All referenced addresses. ``situation`` must be complete. Raises CorruptArtifact.

    Records are searched as text: any address in them counts, so that new kinds of records and new fields never lose
    what they name.
    """
    plan = plan_erasure(situation)
    found = {*situation.served, *situation.wanted, *plan.remove, *plan.kept, *plan.waiting}
    found |= set(_mentioned(artifacts.store)) | set(_of_recipes(artifacts)) | set(_of_trials(artifacts))
    return found | set(_of_living(artifacts, situation))


def _mentioned(store: Store) -> Iterator[str]:
    """Addresses mentioned in the text of records."""
    folders = ["names", *(f"{tenant}/{folder}" for tenant in store.tenants() for folder in _FOLDERS)]
    for folder in folders:
        for entry in store.entries(folder):
            key = f"{entry.path}@{entry.modified.timestamp()}"
            yield from _MENTIONED.get(store, key, partial(_addresses, store, entry.path)) or ()


def _addresses(store: Store, path: str) -> tuple[str, ...]:
    try:
        text = store.get(path)
    except FileNotFoundError:
        # A reminder that was there when the folder was listed.
        return ()
    return tuple(sorted({found.decode() for found in _ADDRESS.findall(text)}))


def _of_recipes(artifacts: Artifacts) -> Iterator[str]:
    """Bases and baselines that registered recipes resolve to with today's code."""
    for recipe in list_recipes(artifacts.store):
        for request in (identity.base_model_request, identity.baseline_report_request):
            try:
                yield str(request(artifacts, recipe).address)
            except StoreUnavailable:
                raise
            except UserError:
                continue  # It resolves to nothing today.


def _of_trials(artifacts: Artifacts) -> Iterator[str]:
    """Trainings of the trials of submitted sweeps."""
    store = artifacts.store
    pairs = {(each.dataset, each.recipe) for tenant in store.tenants() for each in all_submissions(store, tenant)}
    for dataset, recipe in sorted(pairs):
        try:
            trials = [trial.key for trial in get_recipe(store, recipe).trials]
        except StoreUnavailable:
            raise
        except UserError:
            continue
        for trial in trials:
            for find in (identity.token_pack, identity.reference_logps, identity.checkpoint):
                try:
                    yield str(find(artifacts, dataset, trial).address)
                except StoreUnavailable:
                    raise
                except UserError:
                    continue


def _of_living(artifacts: Artifacts, situation: Situation) -> Iterator[str]:
    """Inputs of attempts without an ending: a worker may be reading them."""
    for address, node in situation.nodes.items():
        if node.erased:
            attempts = attempts_at(artifacts.store, Address.parse(address))
            if attempts and attempts[-1].ending() is None:
                yield from node.inputs.values()
