"""Where the command line finds its state: settings of the environment win, else everything is below the project."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import dagster as dg

    from ft_resources.store import Store


def project_root(start: Path) -> Path | None:
    """``start`` or its nearest parent with a ``dagster.yaml``, None where there is none."""
    return next((folder for folder in (start, *start.parents) if (folder / "dagster.yaml").is_file()), None)


def prepare_environment() -> None:
    """Set DAGSTER_HOME, FT_STATE, FT_STORE, FT_CACHE and FT_TENANTS where they are not, before anything reads them."""
    root = project_root(Path.cwd())
    base = root or Path.cwd()
    if root is None and "FT_STORE" not in os.environ and not (base / ".ft").exists():
        # Otherwise somebody in the wrong folder would wonder where everything has gone.
        print(f"no project here or above; starting an empty store in {base / '.ft'}", file=sys.stderr)
    state = Path(os.environ.setdefault("FT_STATE", str(base / ".ft" / "dagster")))
    os.environ.setdefault("FT_STORE", str(base / ".ft" / "store"))
    os.environ.setdefault("FT_CACHE", str(base / ".ft" / "cache"))
    # Otherwise a tenant's limits would depend on the folder that somebody happens to be in.
    os.environ.setdefault("FT_TENANTS", str(base / "tenants.yaml"))
    # Outside a project Dagster's own defaults apply, which write into its home.
    home = os.environ.setdefault("DAGSTER_HOME", str(root or state))
    for folder in (state, Path(home)):
        folder.mkdir(parents=True, exist_ok=True)


def open_store() -> "Store":
    """The store of ``FT_STORE``."""
    from ft_resources.dagster_resources import default_store_url
    from ft_resources.store import Store

    return Store(default_store_url())


def open_instance() -> "dg.DagsterInstance":
    """The Dagster instance of ``DAGSTER_HOME``."""
    import dagster as dg

    return dg.DagsterInstance.get()


def actor() -> str:
    """Who asks: the user of the operating system."""
    import getpass

    return getpass.getuser()
