"""The recipe of a first try: derived from the base, the form of the rows and the machine.

Equal inputs give the same key and content, so a repeated request with the same file is the same pair.
"""

import hashlib
import re
import unicodedata
from collections.abc import Callable
from pathlib import Path, PurePath

from ft_assets.control.recipes.stored import StoredRecipe
from ft_assets.control.registry.register import RegisteredRecipe, register_read
from ft_assets.settings.catalogue.methods import METHODS
from ft_assets.settings.keys import DatasetKey, RecipeKey
from ft_assets.settings.recipe.base_ref import FolderPath, parse_base
from ft_assets.settings.recipe.ready_templates import PLAIN, PLAIN_TEMPLATE
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.settings.tenants import TenantsFile
from ft_assets.settings.ungated import NO_GATES
from ft_assets.workers.base_models.contents import NO_TEMPLATE
from ft_assets.workers.base_models.lock import lock_folder
from ft_resources.errors import BadBase, BadRecipe
from ft_resources.hub import Hub
from ft_resources.store import Store
from ft_resources.strict import parse_strict

# A key's part has at most 40 characters: name, method and eight of the digest, with hyphens.
_NAME, _DIGEST = 24, 8


def name_of(source: str) -> str:
    """The dataset name for a file, or ``hub:org/name@revision#split``: the characters of its name that a key may
    contain."""
    stem = PurePath(source.partition("#")[0].partition("@")[0] if source.startswith("hub:") else source).name
    plain = unicodedata.normalize("NFKD", stem.partition(".")[0]).encode("ascii", "ignore").decode().lower()
    return _part(plain, 40) or f"rows-{_short(stem)}"


def register_first_try(
    store: Store,
    form: str,
    base: str,
    dataset: DatasetKey,
    *,
    gpus: int,
    actor: str,
    tenants: TenantsFile,
    before: Callable[[StoredRecipe], None],
    hub: Hub | None = None,
) -> RegisteredRecipe:
    """Register the recipe for rows of the data form ``form``, which become a version of ``dataset``, on ``base``: as a
    recipe names it, or a folder's path. ``before``, ``hub`` and what is raised: see ``register_recipe``."""
    if ":" not in base and Path(base).is_dir():
        base = f"folder:{base}"
    where = "first try"
    try:
        reference = parse_base(base)
    except ValueError as error:
        remedy = "Name a base, such as folder:./model or hub:ORG/NAME@main."
        raise BadRecipe(str(error), where=f"base {base!r}", remedy=remedy) from error
    locked = base
    if isinstance(reference, FolderPath):
        # By content, not path. The registration checks whether a template is needed.
        locked = lock_folder(reference.path.expanduser(), f"base {base!r}", template_given=True).source

    def register(*, plain: bool) -> RegisteredRecipe:
        recipe = first_try(form, base, dataset, locked, gpus, plain=plain)
        return register_read(store, recipe, where, actor=actor, tenants=tenants, hub=hub, before=before, beside=Path())

    try:
        return register(plain=False)
    except (BadBase, BadRecipe) as error:
        if error.what != NO_TEMPLATE:
            raise
        return register(plain=True)


def first_try(form: str, base: str, dataset: DatasetKey, locked: str, gpus: int = 0, *, plain: bool = False) -> Recipe:
    """The recipe for ``dataset``, whose rows are of the data form ``form``. Pure.

    Args:
        base: as a recipe names it.
        locked: what tells it from other bases.
        gpus: GPUs that it trains on.
        plain: the plain chat template in place of the base's, which has none.
    """
    method = next(method for method in METHODS.values() if method.form.name == form)
    differs = f"{method.name} {locked}" + (f" on {gpus} GPU" if gpus else "") + (f" {PLAIN}" if plain else "")
    name = f"{_part(dataset.name, _NAME)}-{method.name}-{_short(differs)}"
    content = {
        "key": str(RecipeKey(tenant=dataset.tenant, name=name, version=1)),
        "description": f"A first try of {method.name} on {dataset.tenant}.{dataset.name}, made from the rows' form.",
        "base": base,
        "method": method.name,
        # Rejecting long rows, the default, would end a first try without a setting that its author could change.
        "packing": {"overlong": "split" if method.form.plain else "truncate"},
        "hardware": {"gpus": gpus},
        "gates": NO_GATES,
        **({"chat_template": PLAIN_TEMPLATE} if plain else {}),
    }
    return parse_strict(Recipe, content, f"base {base!r}")


def _part(text: str, most: int) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text).strip("-")[:most].strip("-")


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGEST]
