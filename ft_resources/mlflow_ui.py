"""``python -m ft_resources.mlflow_ui [PORT]``: MLflow's pages on the tracking store that trainings are mirrored to."""

import os
import sys
from pathlib import Path

from ft_resources.errors import UserError
from ft_resources.mlflow_server import make_tables
from ft_resources.tracking import default_uri


def command(uri: str, port: str) -> list[str]:
    """The command that shows the tracking store at ``uri``. Raises UserError if there is none on this machine."""
    if not uri:
        raise UserError("nothing is mirrored to MLflow", where="FT_TRACKING=off", remedy="Unset FT_TRACKING.")
    if uri.startswith("http"):
        raise UserError(
            "trainings are mirrored to a server", where="MLFLOW_TRACKING_URI", remedy=f"Open it in a browser: {uri}"
        )
    if uri.startswith("sqlite:///"):
        Path(uri.removeprefix("sqlite:///")).parent.mkdir(parents=True, exist_ok=True)
    return [sys.executable, "-m", "mlflow", "ui", "--backend-store-uri", uri, "--port", port, "--workers", "1"]


if __name__ == "__main__":
    try:
        arguments = command(default_uri(), sys.argv[1] if len(sys.argv) > 1 else "5000")
    except UserError as error:
        sys.exit(str(error))
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    # Its pages need none of the eight processes for MLflow's own jobs.
    os.environ.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    # A training may be the first to need them, at this moment.
    make_tables(default_uri())
    os.execv(arguments[0], arguments)
