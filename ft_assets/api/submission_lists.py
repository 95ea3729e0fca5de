"""How many submissions stand. Apart from what is known of one, which takes longer to load."""

from ft_assets.api.defaults import store_or_default
from ft_assets.control.submissions.place import with_place
from ft_assets.control.submissions.status import Status, statuses
from ft_resources.store import Store
from ft_resources.store_glance import Glance


def list_submissions(*, tenant: str = "", store: Store | None = None) -> list[Status]:
    """How all submissions stand, or those of one tenant, newest first."""
    store = Glance(store_or_default(store))
    return [with_place(store, submission, status) for submission, status in statuses(store, tenant)]
