"""The adapter that a recipe's training starts from: locked by its address, and of the recipe's base and shape."""

from collections.abc import Callable
from typing import Any

from ft_assets.control.identity.accepted import PREFIX, WARM_START, accepted_adapter, require_same_base
from ft_assets.control.recipes.stored import StoredRecipe
from ft_assets.control.registry.chain import adapter_of_pair, require_own
from ft_assets.records.tombstones import require_alive
from ft_assets.settings.keys import DatasetKey
from ft_assets.settings.recipe.base_ref import AdapterAtStage, AdapterOfPair, parse_adapter
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.recipe.shown import shown_value
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_resources.artifacts import Address, Artifact, Artifacts
from ft_resources.errors import BadRecipe
from ft_resources.json_object import JsonObject
from ft_resources.store import Store

AtStage = Callable[[Store, str, str], str | None]
"""The address of the adapter in a line's stage, if there is one."""
_CONFIG = "adapter_config.json"
_FULL = 64


def lock_warm_start(
    artifacts: Artifacts, recipe: Recipe, stored: StoredRecipe | None, at_stage: AtStage | None, where: str
) -> Recipe:
    """``recipe`` with its warm start by full address, and with that adapter's rank and alpha in place of ``auto``.

    ``stored`` is the recipe if it is registered already: it keeps the adapter of that time, even if its line has moved
    on. Raises BadRecipe if the recipe may not use the named adapter.
    """
    if recipe.training.warm_start is None:
        return recipe
    address = _address(artifacts, recipe, stored, at_stage, where)
    training = recipe.training.model_copy(update={"warm_start": f"{PREFIX}{address}"})
    recipe = recipe.model_copy(update={"training": training})
    if recipe.variant == "full" or "auto" not in (recipe.lora.rank, recipe.lora.alpha):
        return recipe
    if stored is not None and stored.recipe.training.warm_start == training.warm_start:
        shape = {"rank": stored.recipe.lora.rank, "alpha": stored.recipe.lora.alpha}
    else:
        theirs = _shape(artifacts, accepted_adapter(artifacts, address, WARM_START, where), where)
        shape = {name: theirs[name] for name in ("rank", "alpha")}
    settled = {name: value for name, value in shape.items() if getattr(recipe.lora, name) == "auto"}
    return recipe.model_copy(update={"lora": recipe.lora.model_copy(update=settled)})


def require_continuable(artifacts: Artifacts, recipe: Recipe, lock: BaseLock, where: str) -> None:
    """Raise BadRecipe unless the adapter that ``recipe`` starts from, by its full address, has the recipe's base and
    the shape that its ``lora`` asks for; Deleted if it was deleted."""
    named = recipe.training.warm_start
    if named is None:
        return
    adapter = accepted_adapter(artifacts, named.removeprefix(PREFIX), WARM_START, where)
    require_alive(artifacts.store, adapter)
    require_same_base(artifacts, adapter, lock, where)
    theirs = _shape(artifacts, adapter, where)
    differing = {name: value for name, value in theirs.items() if _sorted(getattr(recipe.lora, name)) != _sorted(value)}
    if differing:
        said = ", ".join(
            f"lora.{name} is {shown_value(getattr(recipe.lora, name))}, not {shown_value(value)}"
            for name, value in differing.items()
        )
        written = ", ".join(f"{name}: {shown_value(value)}" for name, value in differing.items())
        raise BadRecipe(
            f"the adapter that {WARM_START} names has another shape: {said}",
            where=f"{where}, lora",
            remedy=f"Write lora: {{{written}}}; or write {_instead(adapter)}",
        )


def _shape(artifacts: Artifacts, adapter: Artifact, where: str) -> dict[str, Any]:
    """The settings in ``lora`` that give an adapter of the shape and scale of ``adapter``.

    Rank and scale are those of its files: PiSSA saves twice the rank that it trains. The modules are taken from its own
    recipe, as the files list what ``all-linear`` meant for that base.
    """
    if _CONFIG not in adapter.manifest.files:
        raise BadRecipe(
            f"{WARM_START}: {adapter.address} is a whole model, which has no adapter to continue",
            where=where,
            remedy=f"Write {_instead(adapter)}",
        )
    config = adapter.read_json(_CONFIG)
    if config["lora_alpha"] != int(config["lora_alpha"]):
        raise BadRecipe(
            f"{WARM_START}: the scale of {adapter.address} (lora_alpha {config['lora_alpha']:g}) is one of pissa with "
            "rslora, and lora.alpha is a whole number",
            where=where,
            remedy=f"Write {_instead(adapter)}",
        )
    trained = artifacts.get(Address.parse(adapter.manifest.inputs["checkpoint"].address)).read_json("recipe.json")
    return {
        "rank": config["r"],
        "alpha": int(config["lora_alpha"]),
        "use_rslora": config.get("use_rslora", False),
        "use_dora": config.get("use_dora", False),
        "target_modules": JsonObject(trained["lora"], trained.error)["target_modules"],
    }


def _instead(adapter: Artifact) -> str:
    return f"base: {PREFIX}{adapter.address} in place of {WARM_START}, which trains on that adapter's whole model."


def _sorted(value: Any) -> Any:
    return sorted(value) if isinstance(value, list | tuple) else value


def _address(
    artifacts: Artifacts, recipe: Recipe, stored: StoredRecipe | None, at_stage: AtStage | None, where: str
) -> str:
    """The full address of the adapter that ``recipe`` names."""
    assert recipe.training.warm_start is not None
    reference, key = parse_adapter(recipe.training.warm_start), recipe.recipe_key
    locked = (
        stored.recipe.training.warm_start.removeprefix(PREFIX) if stored and stored.recipe.training.warm_start else ""
    )
    if isinstance(reference, AdapterOfPair):
        require_own(DatasetKey.parse(reference.dataset).tenant, key, WARM_START, where)
        return adapter_of_pair(artifacts, reference, locked, WARM_START, where)
    if isinstance(reference, AdapterAtStage):
        require_own(reference.line.partition(".")[0], key, WARM_START, where)
        known = artifacts.find(Address.parse(locked)) if locked else None
        if known is not None and known.facts["line"] == reference.line:
            return locked
        found = at_stage(artifacts.store, reference.line, reference.stage) if at_stage else None
        if found is None:
            raise BadRecipe(
                f"{WARM_START}: nothing is in {reference.stage} of {reference.line}",
                where=where,
                remedy=f"Show its stages: ft line {reference.line}, or name an adapter by its address.",
            )
        return found
    start = Address.parse(reference.address)
    require_own(start.tenant, key, WARM_START, where)
    if len(start.fingerprint) == _FULL:
        return reference.address
    if locked.startswith(reference.address):
        return locked
    folder = f"{start.tenant}/adapter"
    starting = [name for name in artifacts.store.folders(folder) if name.startswith(start.fingerprint)]
    if len(starting) != 1:
        raise BadRecipe(
            f"{WARM_START}: {len(starting) or 'no'} adapters start with {reference.address}",
            where=where,
            remedy="Give the whole address, as `ft adapter list` shows it.",
        )
    return f"{folder}/{starting[0]}"
