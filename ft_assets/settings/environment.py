"""Settings from environment variables: where the command line keeps its state (else below the project), and limits."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ft_resources.environment import default_store_url

if TYPE_CHECKING:
    from ft_resources.store import Store

MAX_PAIRS = 25


def max_pairs() -> int:
    """``FT_MAX_PAIRS`` (25): maximum number of pairs in a backfill, and of trials in a sweep."""
    return int(os.environ.get("FT_MAX_PAIRS", MAX_PAIRS))


def prepare_environment() -> None:
    """Set DAGSTER_HOME, FT_STATE, FT_STORE, FT_CACHE and FT_TENANTS if unset, before anything reads them."""
    here = Path.cwd()
    root = next((folder for folder in (here, *here.parents) if (folder / "dagster.yaml").is_file()), None)
    base = root or here
    if root is None and "FT_STORE" not in os.environ and not (base / ".ft").exists():
        # Otherwise a command in the wrong folder would silently start with empty state.
        print(f"no project here or above; starting an empty store in {base / '.ft'}", file=sys.stderr)
    state = Path(os.environ.setdefault("FT_STATE", str(base / ".ft" / "dagster")))
    os.environ.setdefault("FT_STORE", str(base / ".ft" / "store"))
    os.environ.setdefault("FT_CACHE", str(base / ".ft" / "cache"))
    # Otherwise a tenant's limits would depend on the working directory.
    os.environ.setdefault("FT_TENANTS", str(base / "tenants.yaml"))
    # Outside a project Dagster's defaults apply, which write into its home.
    home = os.environ.setdefault("DAGSTER_HOME", str(root or state))
    for folder in (state, Path(home)):
        folder.mkdir(parents=True, exist_ok=True)


def open_store() -> "Store":
    """The store at ``FT_STORE``."""
    from ft_resources.store import Store

    return Store(default_store_url())


def actor() -> str:
    """The caller's name: the operating system's user."""
    import getpass

    return getpass.getuser()
