"""Keys as people write them: one without a tenant is of the tenant that the caller works for (``FT_TENANT``).

A key that exists as written is taken literally, and no completion leads to another tenant.
"""

from ft_assets.records.names import RECIPE
from ft_assets.settings.environment import caller_tenant
from ft_assets.settings.keys import DatasetKey, RecipeKey
from ft_resources.errors import UserError
from ft_resources.store import Store


def own_dataset(text: str) -> str:
    """The dataset key in ``text``; as it is where it already has a tenant, or is no key."""
    return _own(text) if _is_key(DatasetKey, _own(text)) else text


def own_recipe(store: Store, text: str) -> str:
    """The recipe key in ``text``: a shared recipe of this name comes before the caller's own."""
    own = _own(text)
    if own == text or not _is_key(RecipeKey, own) or RECIPE.exists(store, text) or not RECIPE.exists(store, own):
        return text
    return own


def own_pair(store: Store, text: str) -> str:
    """The pair ``DATASET|RECIPE`` in ``text``."""
    dataset, _, recipe = text.partition("|")
    return f"{own_dataset(dataset)}|{own_recipe(store, recipe)}"


def own_line(text: str) -> str:
    """The line in ``text``: ``dataset.recipe`` is of the caller's tenant."""
    return _own(text) if text.count(".") == 1 else text


def own_name(text: str) -> str:
    """The dataset name in ``text``: ``support`` is of the caller's tenant."""
    return _own(text) if text and "." not in text else text


def _own(text: str) -> str:
    tenant = caller_tenant()
    return f"{tenant}.{text}" if tenant else text


def _is_key(kind: type[DatasetKey] | type[RecipeKey], text: str) -> bool:
    try:
        kind.parse(text)
    except UserError:
        return False
    return True
