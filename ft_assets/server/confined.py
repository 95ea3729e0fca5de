"""Arguments of a call, confined to what the caller may name; a name without a tenant is of the caller's own."""

import re
from typing import Any

from ft_assets import api
from ft_assets.api import Identity
from ft_assets.records.submissions import Submission, find_submission
from ft_assets.remote.calls import Of
from ft_assets.server.context import Context
from ft_assets.server.owned import own_dataset, own_line, own_recipe
from ft_assets.settings.keys import SHARED, RecipeKey
from ft_resources.errors import NotFound, NotPermitted
from ft_resources.strict import nearest

_SUBMISSION = re.compile(r"[0-9a-f]{16}")
_ADDRESS = re.compile(r"(?P<tenant>[a-z0-9-]+)/[a-z_]+/[0-9a-z]{1,64}")
_PLATFORM = "platform"


def confined(context: Context, caller: Identity, of: Of, given: Any) -> Any:
    """``given`` as the API's function may have it. Raises NotFound for what is another tenant's, as for what is not
    there; NotPermitted for another tenant itself, and for a role beyond the caller's."""
    if isinstance(given, list):
        return [confined(context, caller, of, each) for each in given]
    kinds = {
        Of.DATASET: lambda: dataset_key(caller, given),
        Of.NAME: lambda: dataset_name(caller, given),
        Of.RECIPE: lambda: recipe_key(context, caller, given),
        Of.OWN_RECIPE: lambda: _own_recipe(caller, given),
        Of.LINE: lambda: _line(caller, given),
        Of.ADAPTER: lambda: _seen(caller, given) if "/" in given else _line(caller, given),
        Of.TARGET: lambda: _target(context, caller, given),
        Of.ADDRESS: lambda: given and _address(caller, given),
        Of.SEEN: lambda: _seen(caller, given),
        Of.SUBMISSION: lambda: _submission(context, caller, given).id,
        Of.RECORD: lambda: _submission(context, caller, given),
        Of.LOGGED: lambda: _address(caller, given) if "/" in given else _submission(context, caller, given).id,
        Of.DELETED: lambda: _deleted(caller, given),
        Of.TENANT: lambda: tenant_asked_for(caller, given),
        Of.KEY: lambda: _key(context, caller, given),
        Of.ROLE: lambda: _role(caller, given),
    }
    return kinds[of]()


def dataset_key(caller: Identity, text: str) -> str:
    """The dataset version ``text``. Raises NotFound for another tenant's."""
    return own_dataset(caller, f"{caller.tenant}.{text}" if text.count(".") == 1 else text)


def dataset_name(caller: Identity, text: str) -> str:
    """The dataset ``text``, "" for none. Raises NotPermitted for another tenant's."""
    if not text or "." not in text:
        return text and f"{caller.tenant}.{text}"
    if text.partition(".")[0] != caller.tenant:
        raise NotPermitted(
            "a dataset is named after its tenant",
            where="name",
            remedy=f"Write it as {caller.tenant}.NAME, or NAME alone.",
        )
    return text


def recipe_key(context: Context, caller: Identity, text: str) -> str:
    """The recipe ``text``, which the tenant may use: one of all before one of its own. Raises NotFound."""
    if not RecipeKey.parse(text).tenant and not api.has_recipe(text, store=context.store):
        own = f"{caller.tenant}.{text}"
        text = own if api.has_recipe(own, store=context.store) else text
    try:
        return own_recipe(context, caller, text)
    except NotFound as error:
        known = [each.recipe.key for each in api.list_recipes(tenant=caller.tenant, store=context.store)]
        raise NotFound(f"{error.what}; {nearest(text, known)}", where=error.where, remedy=error.remedy) from None


def _own_recipe(caller: Identity, text: str) -> str:
    key = f"{caller.tenant}.{text}" if text.count(".") == 1 else text
    if RecipeKey.parse(key).tenant != caller.tenant:
        raise NotFound(f"there is no recipe {key!r} of yours", where="recipe", remedy="List recipes to see them.")
    return key


def _line(caller: Identity, text: str) -> str:
    return own_line(caller, f"{caller.tenant}.{text}" if text.count(".") == 1 else text)


def _address(caller: Identity, text: str) -> str:
    found = _ADDRESS.fullmatch(text)
    if found is None or found["tenant"] != caller.tenant:
        raise NotFound(f"there is nothing at {text!r}", where="address", remedy="Take it from a list or a status.")
    return text


def _seen(caller: Identity, text: str) -> str:
    found = _ADDRESS.fullmatch(text)
    return text if found and found["tenant"] == SHARED else _address(caller, text)


def _target(context: Context, caller: Identity, text: str) -> str:
    if "|" in text:
        dataset, _, recipe = text.partition("|")
        return f"{dataset_key(caller, dataset)}|{recipe_key(context, caller, recipe)}"
    if "/" in text:
        return _seen(caller, text)
    if not re.search(r"\.v\d+$", text):
        return _line(caller, text)
    if not RecipeKey.parse(text).tenant and api.has_recipe(text, store=context.store):
        return text
    return dataset_key(caller, text)


def _deleted(caller: Identity, text: str) -> str:
    if text == caller.tenant:
        # For the function to say how a tenant is deleted.
        return text
    return _address(caller, text) if "/" in text else dataset_key(caller, text)


def _submission(context: Context, caller: Identity, text: str) -> Submission:
    found = find_submission(context.store, caller.tenant, text) if _SUBMISSION.fullmatch(text) else None
    if found is None:
        raise NotFound(f"there is no submission {text!r}", where="submission", remedy="See them all with: ft status")
    return found


def tenant_asked_for(caller: Identity, text: str) -> str:
    """Whose keys and records the caller means. Raises NotPermitted for another tenant's, unless it is the platform."""
    if caller.role == _PLATFORM:
        return text
    if text not in ("", caller.tenant):
        raise NotPermitted("a tenant's key means its own tenant", where="tenant", remedy="Leave the tenant out.")
    return caller.tenant


def _key(context: Context, caller: Identity, text: str) -> str:
    prefix = text.removeprefix("ft-").partition("-")[0]
    if prefix not in {each.prefix for each in api.list_keys(tenant_asked_for(caller, ""), access=context.access)}:
        raise NotFound(f"there is no key {prefix!r}", where="key", remedy="List keys to see them.")
    return prefix


def _role(caller: Identity, role: api.Role) -> api.Role:
    if caller.role != _PLATFORM:
        api.require_role(caller.role, role)
    return role
