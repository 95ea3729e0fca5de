"""A stop that a worker cannot hear, or that comes when its end is settled."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from ft_resources.attempts import Attempt
from ft_resources.errors import UserError
from ft_resources.launchers.base import LaunchState
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import EXIT_CODES, Outcome
from ft_resources.store import Store
from ft_resources.work import WorkRequest, WorkSpec
from ft_resources.worker_context import Preempted, WorkContext

pytestmark = pytest.mark.subprocess


def spec_for(store: Store, asset: str) -> WorkSpec:
    request = WorkRequest(asset=asset, tenant="acme", code_version="1", inputs={}, params={}, label="x")
    told = {name: getattr(request, name) for name in ("asset", "address", "identity", "inputs", "params", "runtime")}
    return WorkSpec(**told, store_url=store.url, store_layout=store.layout, attempt=1, label="x", actor="t")


def until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def is_gone(pid: int) -> bool:
    """Whether a process has ended, be it that nobody asked how."""
    with suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    return True


@pytest.mark.skipif(sys.platform != "linux", reason="a mutex of zeros is glibc's")
def test_a_worker_that_hangs_in_a_library_is_ended_as_preempted_before_it_would_be_killed(store: Store) -> None:
    spec, launcher = spec_for(store, "hang"), LocalLauncher(module="tests.fake_worker")
    attempt = Attempt(store, spec.address, 1)
    attempt.claim("t")
    attempt.write_spec(spec)
    launcher.launch(spec, attempt)
    until(lambda: attempt.progress().get("phase") == "hanging")
    handle = attempt.launch()
    assert handle is not None
    os.kill(handle["pid"], signal.SIGTERM)
    until(lambda: launcher.state(attempt) is LaunchState.GONE)
    ending = attempt.ending()
    assert ending is not None
    assert ending.outcome is Outcome.PREEMPTED
    assert launcher._children[handle["pid"]].returncode == EXIT_CODES[Outcome.PREEMPTED]
    launcher.clean_up(attempt)


def test_work_that_takes_too_long_fails_with_its_cause_and_leaves_nothing(store: Store) -> None:
    spec, launcher = spec_for(store, "dawdle"), LocalLauncher(module="tests.fake_worker")
    attempt = Attempt(store, spec.address, 1)
    attempt.claim("t")
    attempt.write_spec(spec)
    launcher.launch(spec, attempt)
    until(lambda: launcher.state(attempt) is LaunchState.GONE)
    ending = attempt.ending()
    assert ending is not None
    assert ending.outcome is Outcome.BAD_DATA
    assert ending.error == {"type": "BadData", "what": "it takes too long", "where": "rows", "remedy": "send fewer"}
    assert [each.path for each in store.entries(str(spec.address)) if "/attempts/" not in each.path] == []
    until(partial(is_gone, attempt.progress()["done"]))
    launcher.clean_up(attempt)


@pytest.fixture
def context(store: Store, tmp_path: Path) -> Iterator[WorkContext]:
    """A worker's, with this process's signals; those are put back."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    context = WorkContext(spec_for(store, "write"), store, tmp_path)
    context.install_signal_handler()
    context.grace_s = 10.0
    yield context
    signal.set_wakeup_fd(-1)
    for number, handler in before.items():
        signal.signal(number, handler)


def overdue() -> threading.Thread:
    return next(thread for thread in threading.enumerate() if thread.name == "overdue")


def test_a_worker_whose_end_is_settled_is_not_ended_by_a_stop(context: WorkContext) -> None:
    ended: list[bool] = []
    context.end_overdue(lambda _: ended.append(True))
    watching = overdue()
    context.settle()
    os.kill(os.getpid(), signal.SIGTERM)
    watching.join(30)
    assert not watching.is_alive()
    assert ended == []


def test_a_worker_that_is_not_done_when_its_time_is_up_is_ended(context: WorkContext) -> None:
    ended = threading.Event()
    context.end_overdue(lambda _: ended.set())
    with suppress(Preempted), context.graceful():
        os.kill(os.getpid(), signal.SIGTERM)
        assert ended.wait(30)


def test_work_that_ends_in_time_is_not_ended(context: WorkContext) -> None:
    ended: list[BaseException] = []
    context.end_overdue(ended.append)
    before = set(threading.enumerate())
    with context.at_most(0.2, UserError("too long")):
        (timer,) = set(threading.enumerate()) - before
    timer.join(30)
    assert not timer.is_alive()
    assert ended == []
