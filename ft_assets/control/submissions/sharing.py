"""Work shared by several submissions: many may need the same unfinished base model or dataset."""

from contextlib import suppress
from typing import Any

from ft_assets.control import identity
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.pauses import read_pauses
from ft_assets.records.submissions import Submission, open_submissions
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store

# The keys of a submission that determine an asset, and the function that resolves them.
_REQUESTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "dataset": (("dataset",), identity.dataset_request),
    "base_model": (("recipe",), identity.base_model_request),
    "baseline_report": (("recipe",), identity.baseline_report_request),
    **{asset: (("dataset", "recipe"), request) for asset, request in identity.pair_requests().items()},
    "reference_logps": (("dataset", "recipe"), identity.reference_logps_request),
}


def needed_by_others(store: Store, address: Address, mine: Submission | None) -> bool:
    """Whether an open submission other than ``mine`` needs the artifact at ``address``.

    An ``ft run`` of the same pair does not count: it may have been killed long ago without a trace. Nor does a paused
    submission: it makes the artifact, or goes on with it, once it is resumed.
    """
    names, request = _REQUESTS[address.asset]
    wanted = set()
    for other in open_submissions(store, problems=[]):
        again = mine is not None and (other.id == mine.id or (other.pair == mine.pair and other.driver == "caller"))
        # Artifacts made from a dataset belong to its tenant.
        concerned = not again and (names == ("recipe",) or other.tenant == address.tenant)
        if concerned and read_pauses(store, other).standing is None:
            wanted.add(tuple(getattr(other, name) for name in names))
            if names == ("dataset", "recipe"):
                wanted.update((other.dataset, trial) for trial in _trials(store, other.recipe))
    artifacts = Artifacts(store)
    for keys in wanted:
        # Unreadable records or missing inputs do not resolve to this address yet.
        with suppress(UserError):
            if request(artifacts, *keys).address == address:
                return True
    return False


def _trials(store: Store, recipe: str) -> list[str]:
    """The trials of a sweep; empty for other recipes and unreadable ones."""
    with suppress(UserError):
        return [trial.key for trial in get_recipe(store, recipe).trials]
    return []
