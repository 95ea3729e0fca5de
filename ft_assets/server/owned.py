"""What a caller names has to be of its tenant; another's is answered as what is not there."""

from ft_assets import api
from ft_assets.api import Identity
from ft_assets.server.context import Context
from ft_assets.settings.keys import DatasetKey, RecipeKey
from ft_resources.errors import NotFound


def own_dataset(caller: Identity, key: str) -> str:
    """``key`` where it is of the tenant. Raises NotFound for another's, as for one that is not there."""
    if DatasetKey.parse(key).tenant != caller.tenant:
        raise NotFound(f"there is no dataset {key!r}", where="dataset", remedy="List datasets to see them.")
    return key


def own_recipe(context: Context, caller: Identity, key: str) -> str:
    """``key`` where the tenant may use it. Raises NotFound."""
    if RecipeKey.parse(key).tenant not in ("", caller.tenant) or not api.has_recipe(key, store=context.store):
        raise NotFound(f"there is no recipe {key!r}", where="recipe", remedy="List recipes to see them.")
    return key


def own_line(caller: Identity, name: str) -> str:
    """``name`` where it is a line of the tenant. Raises NotFound."""
    if name.count(".") != 2 or name.partition(".")[0] != caller.tenant:
        raise NotFound(f"there is no line {name!r}", where="line", remedy="List lines to see them.")
    return name


def own_adapter(caller: Identity, address: str) -> str:
    """``address`` where it is of the tenant, or "". Raises NotFound."""
    if address and address.partition("/")[0] != caller.tenant:
        raise NotFound(f"there is no adapter {address!r}", where="adapter", remedy="Take its address from a job.")
    return address


def own_adapter_of(context: Context, caller: Identity, line: str, address: str) -> str:
    """``address`` where it is an adapter of the line. Raises NotFound, and UserError for what is no adapter."""
    target = own_adapter(caller, address)
    if api.find_adapter(target, store=context.store).facts["line"] != line:
        raise NotFound(f"line {line} has no adapter {target!r}", where="adapter", remedy="Take it from a job.")
    return target
