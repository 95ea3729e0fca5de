"""Workers that are forked from a process which has imported the libraries, as each import takes eight seconds.

``sitecustomize.py`` is on the path of processes that tests start: where one is a worker, it asks ``server.py`` for a
fork with its arguments, environment and outputs, hands signals on, and ends as the fork ends. Killed, it takes the
fork along. To whoever started it, it is the worker.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PLACE = "TEST_WARM_WORKERS"
_HERE = Path(__file__).parent
_ROOT = _HERE.parents[1]


@contextmanager
def started(folder: Path) -> Iterator[str]:
    """The process that forks, until the block ends; the place of its socket, in ``folder``."""
    place = folder / "warm"
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.warm_workers.server", str(place)], cwd=_ROOT, start_new_session=True
    )
    try:
        yield str(place)
    finally:
        process.kill()
        process.wait()


def environment() -> dict[str, str]:
    """What a process of the project needs to find it, and warm workers where there are some."""
    if place := os.environ.get(PLACE):
        return {PLACE: place, "PYTHONPATH": f"{_HERE}{os.pathsep}{_ROOT}"}
    return {"PYTHONPATH": str(_ROOT)}
