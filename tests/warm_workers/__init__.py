"""Workers that are forked from a process which has imported the libraries, as each import takes eight seconds.

``sitecustomize.py`` is on the path of processes that tests start: where one is a worker, it asks ``server.py`` for a
fork with its arguments, environment and outputs, hands signals on, and ends as the fork ends. Killed, it takes the
fork along. To whoever started it, it is the worker.
"""

import os
import subprocess
import sys
from pathlib import Path

PLACE = "TEST_WARM_WORKERS"
_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


def start(folder: Path, session: int) -> None:
    """Start the process that forks, until the process ``session`` ends; its socket is ``warm`` in ``folder``."""
    command = [sys.executable, "-m", "tests.warm_workers.server", str(folder / "warm"), str(session)]
    subprocess.run(command, cwd=_ROOT, start_new_session=True, check=True)


def environment() -> dict[str, str]:
    """What a process of the project needs to find it, and warm workers where there are some."""
    if place := os.environ.get(PLACE):
        return {PLACE: place, "PYTHONPATH": f"{_HERE}{os.pathsep}{_ROOT}"}
    return {"PYTHONPATH": str(_ROOT)}
