"""Work shared by several submissions: many may need the same unfinished base model or dataset."""

from contextlib import suppress
from itertools import product
from typing import Any

from ft_assets.control import identity
from ft_assets.control.recipes.stored import get_recipe
from ft_assets.records.pauses import read_pauses
from ft_assets.records.submissions import Submission, open_submissions
from ft_resources.artifacts import Address, Artifacts
from ft_resources.errors import UserError
from ft_resources.store import Store

_PAIR = ("dataset", "recipe")
# The keys of a submission that determine an asset, and the functions that resolve them: one, or one for each form.
_REQUESTS: dict[str, tuple[tuple[str, ...], list[Any]]] = {
    "dataset": (("dataset",), [identity.dataset_request]),
    "base_model": (("recipe",), [identity.base_model_request]),
    "baseline_report": (("recipe",), [identity.baseline_report_request]),
    **{asset: (_PAIR, [request]) for asset, request in identity.pair_requests().items()},
    "reference_logps": (_PAIR, [identity.reference_logps_request]),
    **{asset: (_PAIR, list(requests)) for asset, requests in identity.pair_export_requests().items()},
}


_REQUESTS["eval_report"][1].extend(identity.pair_reevaluation_requests())


def needed_by_others(store: Store, address: Address, mine: Submission | None) -> bool:
    """Whether an open submission other than ``mine`` needs the artifact at ``address``.

    An ``ft run`` of the same pair does not count: it may have been killed long ago without a trace. Nor does a paused
    submission: it makes the artifact, or goes on with it, once it is resumed.
    """
    names, requests = _REQUESTS[address.asset]
    wanted: dict[tuple[str, ...], list[Submission]] = {}
    for other in open_submissions(store, problems=[]):
        again = mine is not None and (other.id == mine.id or (other.pair == mine.pair and other.driver == "caller"))
        # Artifacts made from a dataset belong to its tenant.
        if not again and (names == ("recipe",) or other.tenant == address.tenant):
            keys = [tuple(getattr(other, name) for name in names)]
            if names == _PAIR:
                keys += [(other.dataset, trial) for trial in _trials(store, other.recipe)]
            for each in keys:
                wanted.setdefault(each, []).append(other)
    artifacts = Artifacts(store)
    for (each, others), request in product(wanted.items(), requests):
        # Unreadable records or missing inputs do not resolve to this address yet.
        with suppress(UserError):
            # Pauses last, as each is asked of the store.
            if request(artifacts, *each).address == address and any(_goes_on(store, other) for other in others):
                return True
    return False


def _goes_on(store: Store, submission: Submission) -> bool:
    """Whether nobody paused it; True where the records cannot be read, as nobody's work is stopped by mistake."""
    with suppress(UserError):
        return read_pauses(store, submission).standing is None
    return True


def _trials(store: Store, recipe: str) -> list[str]:
    """The trials of a sweep; empty for other recipes and unreadable ones."""
    with suppress(UserError):
        return [trial.key for trial in get_recipe(store, recipe).trials]
    return []
