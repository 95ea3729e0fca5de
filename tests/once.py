"""One thing for all processes of a session: the first that needs it makes it, the others wait and find it there."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """The folder of the session that all processes of pytest-xdist share."""
    base = factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


def session_pid() -> int:
    """The process that lives as long as the session: that of pytest-xdist which starts the others, else this one."""
    return os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else os.getpid()


def made_once(folder: Path, make: Callable[[Path], None]) -> Path:
    """``folder``, which ``make`` has filled. One that a process left half-made is made anew."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    done = folder.with_suffix(".made")
    with locked(folder.with_suffix(".lock")):
        if not done.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            done.touch()
    return folder


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Keep other processes out of the block; the lock goes with the process that has it."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
