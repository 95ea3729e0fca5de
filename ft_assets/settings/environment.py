"""Settings from environment variables: where the command line keeps its state (else below the project), and limits."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ft_assets.settings.keys import check_tenant
from ft_resources.environment import default_store_url, whole_number
from ft_resources.errors import UserError

if TYPE_CHECKING:
    from ft_resources.store import Store

MAX_PAIRS = 25
LOCATION = "fine-tuning"
"""The name of the code location; ``workspace.yaml`` and the Helm values say the same."""
# Dagster's configuration outside a project.
_OUTSIDE = """telemetry: {enabled: false}
nux: {enabled: false}
compute_logs:
  {module: ft_resources.compute_logs, class: TerminalComputeLogManager, config: {base_dir: {env: FT_STATE}}}
"""
_STORE = Path(".ft", "store")
REPORTS_URL = "http://127.0.0.1:3001"
REPORTS = "/console/reports"
"""The console's path of report pages: ADDRESS/report/NAME below it."""


def max_pairs() -> int:
    """``FT_MAX_PAIRS`` (25): maximum number of pairs in a backfill, and of trials in a sweep."""
    return whole_number("FT_MAX_PAIRS", MAX_PAIRS, at_least=1)


def caller_tenant() -> str:
    """``FT_TENANT``, the tenant that the caller works for; "" if it is not set. Raises UserError for an invalid one."""
    tenant = os.environ.get("FT_TENANT", "")
    return check_tenant(tenant, "tenant in FT_TENANT") if tenant else ""


def reports_url() -> str:
    """``FT_REPORTS_URL`` (http://127.0.0.1:3001): where ``ft ui`` serves report pages, and where links to them
    point."""
    return os.environ.get("FT_REPORTS_URL", REPORTS_URL).rstrip("/")


def report_pages_url() -> str:
    """Base of the links to report pages that Dagster stores for good: ``FT_REPORTS_URL`` if it is set, else the console
    at ``FT_PUBLIC_URL``, else where ``ft ui`` serves on this machine."""
    return reports_url() if "FT_REPORTS_URL" in os.environ or not public_url() else f"{public_url()}{REPORTS}"


def public_url() -> str:
    """``FT_PUBLIC_URL``: the address at which people's browsers reach ``ft serve``; "" if it is not set."""
    return os.environ.get("FT_PUBLIC_URL", "").rstrip("/")


def project_folder() -> Path | None:
    """The nearest folder with a ``dagster.yaml`` or a store of this user's, from the working directory upwards."""
    here = Path.cwd()
    return next((each for each in (here, *here.parents) if _is_project(each)), None)


def _is_project(folder: Path) -> bool:
    if (folder / "dagster.yaml").is_file():
        return True
    try:
        # Somebody else's, in /tmp for example, would be given this user's data.
        return (folder / _STORE).stat().st_uid == os.getuid()
    except OSError:
        return False


def prepare_environment(*, here: bool = False) -> None:
    """Set DAGSTER_HOME, FT_STATE, FT_STORE and FT_CACHE if unset, before anything reads them; to folders below the
    working directory if ``here``, else below the project's.

    Raises UserError where the folders of the first two cannot be created.
    """
    base = Path.cwd() if here else project_folder() or Path.cwd()
    state = Path(os.environ.setdefault("FT_STATE", str(base / ".ft" / "dagster")))
    os.environ.setdefault("FT_STORE", str(base / _STORE))
    os.environ.setdefault("FT_CACHE", str(base / ".ft" / "cache"))
    # Outside a project Dagster's defaults apply, which write into DAGSTER_HOME.
    configured = (base / "dagster.yaml").is_file()
    home = os.environ.setdefault("DAGSTER_HOME", str(base if configured else state))
    for variable, folder in (("FT_STATE", state), ("DAGSTER_HOME", Path(home))):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(
                f"the folder cannot be created ({error.strerror})",
                where=f"{variable}={folder}",
                remedy=f"Point {variable} to a folder that you may write to.",
            ) from error
    if home == str(state) and not (state / "dagster.yaml").exists():
        # Without the file every command begins with Dagster's warning. Two may be first at once, and half of it is read
        # as other settings.
        partial = state / f".dagster.{os.getpid()}.yaml"
        partial.write_text(_OUTSIDE, encoding="utf-8")
        partial.replace(state / "dagster.yaml")


def open_store(*, create: bool = False) -> "Store":
    """The store at ``FT_STORE``, opened as ``ft_resources.store_marker`` says."""
    from ft_resources import store_marker

    return store_marker.open_store(default_store_url(), create=create)


def actor() -> str:
    """The caller's name: the operating system's user."""
    import getpass

    return getpass.getuser()


def operator() -> str:
    """``FT_ACTOR``: who runs the deployment, for what is done in Dagster; the operating system's user if not set."""
    return os.environ.get("FT_ACTOR", "").strip() or actor()
