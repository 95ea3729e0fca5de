"""The states of many submissions. Separate from ``submissions``, which takes longer to import."""

from concurrent.futures import Executor, ThreadPoolExecutor

from ft_assets.api.defaults import store_or_default
from ft_assets.control.submissions.place import with_place
from ft_assets.control.submissions.status import Status, newest_first, status_of
from ft_resources.store import Store
from ft_resources.store_glance import Glance

# A bucket answers in some 20 ms, and there are two objects or more of each submission.
_READERS = 16


def list_submissions(*, tenant: str = "", store: Store | None = None) -> list[Status]:
    """The states of all submissions, or of one tenant's, newest first."""
    glance = Glance(store_or_default(store))
    with ThreadPoolExecutor(_READERS) as readers:
        _look_ahead(glance, [tenant] if tenant else glance.tenants(), readers)
        newest = newest_first(glance, tenant)
        return list(readers.map(lambda one: with_place(glance, one, status_of(glance, one)), newest))


def _look_ahead(glance: Glance, tenants: list[str], readers: Executor) -> None:
    """Read what is written about submissions."""
    glance.ahead([("folders", name) for name in tenants], readers)
    folders = [f"{name}/submissions" for name in tenants]
    glance.ahead([("entries", folder) for folder in folders], readers)
    glance.ahead([("get", entry.path) for folder in folders for entry in glance.entries(folder)], readers)
