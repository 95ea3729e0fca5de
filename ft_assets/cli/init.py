"""``ft init``: a store in this folder."""

from ft_assets.cli.door import require_store
from ft_assets.settings.environment import open_store, prepare_environment


def init() -> None:
    """Create a store for this folder and the folders below it. Commands use the store of the nearest folder upwards,
    unless FT_STORE names another.
    """
    from ft_assets.cli.output import note

    require_store("ft init")
    prepare_environment(here=True)
    note(f"commands in this folder use {open_store(create=True).url}")
