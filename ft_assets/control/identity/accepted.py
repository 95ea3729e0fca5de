"""Accepted adapters that recipes name, as their base or as the start of their training."""

from ft_assets.control.identity.lookup import registered_recipe
from ft_assets.records.erased import find_erased
from ft_assets.settings.ungated import without_gates
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import BadRecipe

WARM_START = "training.warm_start"
PREFIX = "artifact:"


def accepted_adapter(artifacts: Artifacts, address: str, field: str, where: str) -> Artifact:
    """The accepted adapter at ``address``, which a recipe names in ``field``. Raises BadRecipe if there is none."""
    adapter = artifacts.find(Address.parse(address))
    if adapter is None:
        erased = find_erased(artifacts.store, address)
        raise BadRecipe(
            f"{field}: this store has no accepted adapter {address}"
            + (f": it was erased, {erased.sentence}" if erased else ""),
            where=where,
            remedy=f"Name an adapter that `ft adapter list` shows. A rejected candidate cannot be {_USES[field]}.",
        )
    if without_gates(adapter.manifest.identity["params"]):
        raise BadRecipe(
            f"{field}: {address} is ungated and was not judged",
            where=where,
            remedy="Name an accepted adapter: register that recipe's next version with gates, and run it first.",
        )
    return adapter


_USES = {"base": "a base", WARM_START: "continued"}


def warm_start(artifacts: Artifacts, recipe_key: str) -> Artifact | None:
    """The adapter that a recipe's training starts from; None for new weights.

    Raises BadRecipe if it is gone, or belongs to another base: a successor recipe of a base that moved names the
    adapter of the base before.
    """
    stored = registered_recipe(artifacts, recipe_key)
    if (named := stored.recipe.training.warm_start) is None:
        return None
    adapter = accepted_adapter(artifacts, named.removeprefix(PREFIX), WARM_START, recipe_key)
    require_same_base(artifacts, adapter, stored.lock, recipe_key)
    return adapter


def require_same_base(artifacts: Artifacts, adapter: Artifact, lock: BaseLock, where: str) -> None:
    """Raise BadRecipe unless ``adapter`` was trained on the files that ``lock`` names. Model cards do not count."""
    base = artifacts.get(Address.parse(adapter.manifest.inputs["base"].address))
    theirs = BaseLock.model_validate(base.manifest.identity["params"]["lock"])
    if theirs.substance != lock.substance:
        raise BadRecipe(
            f"{WARM_START}: {adapter.address} was trained on the base {_named(theirs)}, and this recipe's base is "
            f"{_named(lock)}",
            where=where,
            remedy="Name an adapter of this recipe's base. Where the base moved, that is the adapter that was carried "
            "to it or trained on it: ft adapter list.",
        )


def _named(lock: BaseLock) -> str:
    return f"{lock.source} at {lock.revision[:12]}"
