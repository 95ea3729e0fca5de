"""``ft init``: a store in this folder."""

from ft_assets.cli.door import require_store
from ft_assets.settings.environment import open_store, prepare_environment


def init() -> None:
    """Make a store in this folder, for it and the folders below it. Elsewhere commands use the nearest store that lies
    upwards; FT_STORE names another.
    """
    from ft_assets.cli.output import note

    require_store("ft init")
    prepare_environment(here=True)
    note(f"commands here use {open_store(create=True).url}")
