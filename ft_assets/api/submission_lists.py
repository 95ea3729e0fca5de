"""How many submissions stand. Apart from what is known of one, which takes longer to load."""

from ft_assets.api.defaults import store_or_default
from ft_assets.control.submissions.status import Status, statuses
from ft_resources.store import Store


def list_submissions(*, tenant: str = "", store: Store | None = None) -> list[Status]:
    """How all submissions stand, or those of one tenant, newest first."""
    return statuses(store_or_default(store), tenant)
