"""Work that several submissions wait for: a base model or a dataset in the making may be needed by many."""

from contextlib import suppress
from typing import Any

from ft_assets import identity
from ft_assets.recipes.register import get_recipe
from ft_assets.submissions.record import Submission, open_submissions
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store

# Which of a submission's keys lead to an asset, and how.
_REQUESTS: dict[str, tuple[tuple[str, ...], Any]] = {
    "dataset": (("dataset",), identity.dataset_request),
    "base_model": (("recipe",), identity.base_model_request),
    "baseline_report": (("recipe",), identity.baseline_report_request),
    **{asset: (("dataset", "recipe"), request) for asset, request in identity.pair_requests().items()},
    "reference_logps": (("dataset", "recipe"), identity.reference_logps_request),
}


def needed_by_others(store: Store, address: Address, mine: Submission | None) -> bool:
    """Whether an open submission other than ``mine`` needs the artifact at ``address``.

    An ``ft run`` of the same pair does not count: it may have been killed long ago, and nothing says so.
    """
    names, request = _REQUESTS[address.asset]
    wanted = set()
    for other in open_submissions(store, problems=[]):
        again = mine is not None and (other.id == mine.id or (other.pair == mine.pair and other.driver == "caller"))
        # What is made from a dataset lies with its tenant.
        if not again and (names == ("recipe",) or other.tenant == address.tenant):
            wanted.add(tuple(getattr(other, name) for name in names))
            if names == ("dataset", "recipe"):
                wanted.update((other.dataset, trial) for trial in _trials(store, other.recipe))
    artifacts = Artifacts(store)
    for keys in wanted:
        # What cannot be read, or lacks inputs, does not lead here yet.
        with suppress(UserError):
            if request(artifacts, *keys).address == address:
                return True
    return False


def _trials(store: Store, recipe: str) -> list[str]:
    """The trials of a sweep; none of another recipe, or of one that cannot be read."""
    with suppress(UserError):
        return [trial.key for trial in get_recipe(store, recipe).trials]
    return []
