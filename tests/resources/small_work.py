"""Requests for small work of the fake worker, and somebody who watches it being done."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from ft_resources.attempts import Attempt, attempts_at
from ft_resources.execution import Execution, Observer
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from ft_resources.work import WorkRequest, WorkSpec
from tests.cluster.fixtures import until
from tests.fake_worker import LET_GO

T = TypeVar("T")


def request_for(asset: str, *, tenant: str = "acme", runtime: dict | None = None, **params: object) -> WorkRequest:
    return WorkRequest(
        asset=asset,
        tenant=tenant,
        code_version="1",
        inputs={},
        params=dict(params),
        runtime=runtime or {},
        label=f"{tenant}.x.v1",
    )


def claimed(store: Store, request: WorkRequest) -> tuple[WorkSpec, Attempt]:
    """The first attempt at ``request``, ready to be launched."""
    spec = Execution(store=store, launcher=LocalLauncher())._spec(request, 1, "a", 0)
    attempt = Attempt(store, request.address, 1)
    attempt.claim("a")
    attempt.write_spec(spec)
    return spec, attempt


def begun(store: Store, request: WorkRequest, phase: str = "writing") -> Attempt:
    """The attempt at ``request``, once its worker reports."""

    def look() -> Attempt | None:
        attempts = attempts_at(store, request.address)
        here = attempts and attempts[-1].progress().get("phase") == phase and attempts[-1].launch()
        return attempts[-1] if here else None

    return until(look)


def let_go(store: Store) -> None:
    """Held work of the store may end."""
    store.put(LET_GO, b"")


def outcome(attempt: Attempt) -> Outcome | None:
    """How the attempt ended, as its record says; None while there is none."""
    ending = attempt.ending()
    return ending.outcome if ending else None


class Watcher(Observer):
    def __init__(self) -> None:
        self.attached: list[bool] = []
        self.phases: list[str] = []
        self.chunks: list[int] = []
        self.changes: list[str] = []

    @property
    def retries(self) -> int:
        return len(self.changes)

    def attempt(self, attempt: Attempt, *, attached: bool) -> None:
        self.attached.append(attached)

    def progress(self, progress: dict) -> None:
        self.phases.append(progress["phase"])

    def steps(self, attempt: Attempt, chunk: int, data: bytes) -> None:
        self.chunks.append(chunk)

    def retrying(self, ending: object, delay_s: float, change: str) -> None:
        self.changes.append(change)


def at_once(callers: int, call: Callable[[int], T]) -> list[T]:
    """The results of ``call`` in so many threads, each with its number; all begin together."""
    barrier = threading.Barrier(callers)

    def begin(number: int) -> T:
        barrier.wait()
        return call(number)

    with ThreadPoolExecutor(callers) as threads:
        return list(threads.map(begin, range(callers)))


def in_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list]:
    """The thread that calls, and the list in which its result or error will be."""
    results: list = []

    def target() -> None:
        try:
            results.append(call())
        except BaseException as error:
            results.append(error)

    thread = threading.Thread(target=target)
    thread.start()
    return thread, results
