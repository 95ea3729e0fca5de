"""A stop that a worker cannot hear, or that comes when its end is settled."""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from ft_resources.attempts import Attempt
from ft_resources.errors import UserError
from ft_resources.launchers.base import LaunchState
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import EXIT_CODES, Outcome
from ft_resources.store import Store
from ft_resources.worker_context import Preempted, WorkContext
from tests.cluster.fixtures import until
from tests.resources.small_work import begun, claimed, request_for

pytestmark = [pytest.mark.subprocess, pytest.mark.usefixtures("warm")]


def is_gone(pid: int) -> bool:
    """Whether a process has ended, be it that nobody asked how."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


def launched(store: Store, asset: str) -> tuple[LocalLauncher, Attempt]:
    """The fake worker at work."""
    launcher, (spec, attempt) = LocalLauncher(module="tests.fake_worker"), claimed(store, request_for(asset))
    launcher.launch(spec, attempt)
    return launcher, attempt


@pytest.mark.skipif(sys.platform != "linux", reason="a mutex of zeros is glibc's")
def test_a_worker_that_hangs_in_a_library_is_ended_as_preempted_before_it_would_be_killed(store: Store) -> None:
    launcher, attempt = launched(store, "hang")
    pid = begun(store, request_for("hang"), "hanging").launch()["pid"]
    os.kill(pid, signal.SIGTERM)
    until(lambda: launcher.state(attempt) is LaunchState.GONE)
    assert attempt.ending().outcome is Outcome.PREEMPTED
    assert launcher._children[pid].returncode == EXIT_CODES[Outcome.PREEMPTED]
    launcher.clean_up(attempt)


def test_work_that_takes_too_long_fails_with_its_cause_and_leaves_nothing(store: Store) -> None:
    launcher, attempt = launched(store, "dawdle")
    until(lambda: launcher.state(attempt) is LaunchState.GONE)
    ending = attempt.ending()
    assert ending.outcome is Outcome.BAD_DATA
    assert ending.error == {"type": "BadData", "what": "it takes too long", "where": "rows", "remedy": "send fewer"}
    assert [each.path for each in store.entries(str(attempt.address)) if "/attempts/" not in each.path] == []
    until(lambda: is_gone(attempt.progress()["done"]))
    launcher.clean_up(attempt)


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Iterator[WorkContext]:
    """A worker's, with this process's signals; those are put back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    context = WorkContext(claimed(store, request_for("write"))[0], store, tmp_path)
    context.install_signal_handler()
    context.grace_s = 10.0
    yield context
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_worker_whose_end_is_settled_is_not_ended_by_a_stop(context: WorkContext) -> None:
    ended: list[bool] = []
    before = set(threading.enumerate())
    context.end_overdue(lambda _: ended.append(True))
    (watching,) = set(threading.enumerate()) - before
    context.settle()
    os.kill(os.getpid(), signal.SIGTERM)
    watching.join()
    assert not watching.is_alive()
    assert ended == []


def test_a_worker_that_is_not_done_when_its_time_is_up_is_ended(context: WorkContext) -> None:
    ended = threading.Event()
    context.end_overdue(lambda _: ended.set())
    with suppress(Preempted), context.graceful():
        os.kill(os.getpid(), signal.SIGTERM)
        assert ended.wait(600)


def test_work_that_ends_in_time_is_not_ended(context: WorkContext) -> None:
    ended: list[BaseException] = []
    context.end_overdue(ended.append)
    before = set(threading.enumerate())
    with context.at_most(600.0, UserError("too long")):
        (timer,) = set(threading.enumerate()) - before
    timer.join()
    assert not timer.is_alive()
    assert ended == []
