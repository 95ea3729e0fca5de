"""Check a recipe's new tokens against the base's tokenizer at registration."""

import tempfile
from collections.abc import Callable
from pathlib import Path

from ft_assets.control.registry.base_files import fetch_base_file
from ft_assets.settings.recipe.recipe import Recipe
from ft_assets.workers.base_models.base_lock import BaseLock
from ft_assets.workers.base_models.contents import tokenizer_files
from ft_assets.workers.base_models.new_tokens import require_new
from ft_resources.hub import Hub
from ft_resources.store import Store


def require_new_tokens(
    store: Store, recipe: Recipe, lock: BaseLock, *, folder: Path | None, hub: Callable[[], Hub], where: str
) -> None:
    """Raise BadBase if the tokens that ``recipe`` adds cannot be added to the locked base.

    Args:
        folder: the base's folder if it is on this machine.
        hub: source of the tokenizer of a hub base.
    """
    if not recipe.new_tokens:
        return
    # It needs numpy, which may not be installed where recipes are loaded.
    field = f"{where}, new_tokens"
    if folder is not None:
        require_new(folder, recipe.new_tokens, field)
        return
    with tempfile.TemporaryDirectory(prefix="ft-tokenizer-") as scratch:
        own = Path(scratch)
        for name in tokenizer_files(lock.files):
            fetch_base_file(store, lock, name, own / name, hub=hub)
        require_new(own, recipe.new_tokens, field)
