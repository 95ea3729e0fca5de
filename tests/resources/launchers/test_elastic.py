"""On a cluster with Kueue: a training begins on the GPUs that there is room for, and changes their number later."""

import time
from dataclasses import replace
from typing import Any

import pytest

from ft_resources.attempts import Attempt, attempts_at
from ft_resources.kubernetes.names import WAITS_SINCE
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import Outcome
from ft_resources.store import Store
from ft_resources.work import Resources, WorkRequest
from tests.cluster.fixtures import until
from tests.resources.launchers.conftest import OnCluster
from tests.resources.small_work import Watcher, claimed, in_thread, request_for

pytestmark = pytest.mark.cluster


def training(on_cluster: OnCluster, text: str = "x", sizes: tuple[int, ...] = (2, 1), **runtime: Any) -> WorkRequest:
    """A training of an hour or more, if nobody stops it, on so many GPUs as there is room for."""
    told = {"held": 9, "trained": 10, "eta_s": 7200.0, "processes": sizes[0], **runtime}
    request = on_cluster.place().request("write", text=text, runtime=told)
    return replace(request, resources=Resources(gpus=sizes[0], gpu_sizes=sizes if len(sizes) > 1 else ()))


def started(on_cluster: OnCluster, queue: str | None, request: WorkRequest) -> tuple[Any, list, Watcher]:
    """The work under way in a thread, as in a run of Dagster's."""
    execution, watcher = on_cluster.place(queue=queue).execution(), Watcher()
    thread, got = in_thread(lambda: execution.run(request, actor="a", observer=watcher))
    return thread, got, watcher


def runs(on_cluster: OnCluster, request: WorkRequest, number: int) -> Attempt:
    """The attempt of this number, once its worker trains."""

    def look() -> Attempt | None:
        attempts = attempts_at(on_cluster.store, request.address)
        there = len(attempts) == number and attempts[-1].progress().get("phase") == "training"
        return attempts[-1] if there else None

    return until(look)


def gpus(attempt: Attempt) -> tuple[int, int]:
    """GPUs and processes that an attempt was started with."""
    spec = attempt.spec()
    assert spec is not None
    return spec.resources.gpus, spec.runtime["processes"]


def tick(on_cluster: OnCluster, queue: str | None, *, later_s: float = 0.0) -> str:
    """What the sensor says, by a clock that is so much ahead."""
    launcher = on_cluster.launcher(queue=queue, clock=lambda: time.time() + later_s)
    assert launcher.queue is not None
    return launcher.queue.age(on_cluster.store)[0]


def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on a training that has just begun may change its size."""
    monkeypatch.setattr("ft_resources.kubernetes.elastic._SETTLED_S", 0.0)


def cancel(on_cluster: OnCluster, queue: str | None, request: WorkRequest) -> None:
    assert on_cluster.place(queue=queue).execution().cancel(request.address, actor="a")


def waits(on_cluster: OnCluster, queue: str | None, request: WorkRequest, why: str) -> Attempt:
    """The last attempt at ``request``, once it waits for this."""
    last = until(lambda: (attempts_at(on_cluster.store, request.address) or [None])[-1])
    until(lambda: last.launch() and on_cluster.launcher(queue=queue).why_waiting(last).reason == why)
    return last


def half_taken(on_cluster: OnCluster) -> tuple[str, WorkRequest, Any]:
    """A queue of two GPUs, of which another training has one; that training, and the thread that waits for it."""
    queue = on_cluster.access.queue(gpus=2)
    other = training(on_cluster, "other", (1,))
    thread, _, _ = started(on_cluster, queue, other)
    runs(on_cluster, other, 1)
    return queue, other, thread


def test_a_training_begins_on_what_there_is_and_takes_more_once_it_is_idle(
    on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other, others_thread = half_taken(on_cluster)
    mine = training(on_cluster, "mine")
    thread, got, watcher = started(on_cluster, queue, mine)
    first = runs(on_cluster, mine, 1)
    assert gpus(first) == (1, 1)
    with monkeypatch.context() as now:
        settled(now)
        assert "another number" not in tick(on_cluster, queue)
    cancel(on_cluster, queue, other)
    others_thread.join()
    # There is room, but it has only begun.
    assert "another number" not in tick(on_cluster, queue)
    settled(monkeypatch)
    until(lambda: "1 get another number of GPUs" in tick(on_cluster, queue))
    second = runs(on_cluster, mine, 2)
    assert first.ending().outcome is Outcome.RESIZED  # type: ignore[union-attr]
    assert gpus(second) == (2, 2)
    assert watcher.retries == 1
    # It has all that it may have.
    assert "another number" not in tick(on_cluster, queue)
    cancel(on_cluster, queue, mine)
    thread.join()
    assert "cancelled" in str(got[0])


def test_who_waits_comes_before_who_has_something(on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    settled(monkeypatch)
    queue = on_cluster.access.queue(gpus=3)
    other, mine, large = (
        training(on_cluster, "other", (2,)),
        training(on_cluster, "mine"),
        training(on_cluster, "large", (3,)),
    )
    threads = [started(on_cluster, queue, other)[0]]
    runs(on_cluster, other, 1)
    threads.append(started(on_cluster, queue, mine)[0])
    assert gpus(runs(on_cluster, mine, 1)) == (1, 1)
    threads.append(started(on_cluster, queue, large)[0])
    waits(on_cluster, queue, large, "quota")
    cancel(on_cluster, queue, other)
    threads[0].join()
    assert "another number" not in tick(on_cluster, queue)
    # Once nobody waits, it may.
    cancel(on_cluster, queue, large)
    threads[2].join()
    until(lambda: "1 get another number of GPUs" in tick(on_cluster, queue))
    runs(on_cluster, mine, 2)
    cancel(on_cluster, queue, mine)
    threads[1].join()


def test_one_that_waits_for_room_that_is_gone_takes_less(
    on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, other, others_thread = half_taken(on_cluster)
    mine = training(on_cluster, "mine")
    with monkeypatch.context() as late:
        # As if the other had come between the look and the launch.
        late.setattr(KubernetesLauncher, "gpus_now", lambda self, spec, attempt: 2)
        thread, _, _ = started(on_cluster, queue, mine)
        first = waits(on_cluster, queue, mine, "quota")
    assert "another number" not in tick(on_cluster, queue)
    assert "1 get another number of GPUs" in tick(on_cluster, queue, later_s=200.0)
    second = runs(on_cluster, mine, 2)
    assert gpus(second) == (1, 1)
    assert first.ending().outcome is Outcome.RESIZED  # type: ignore[union-attr]
    assert first.span() is None
    assert until(first.place)["cause"] == "resized"
    # Its wait goes on where the first one's was.
    job = on_cluster.job(second)
    assert job is not None
    assert job["metadata"]["annotations"][WAITS_SINCE] == f"{first.claimed_at():.0f}"
    for request, running in ((mine, thread), (other, others_thread)):
        cancel(on_cluster, queue, request)
        running.join()


def test_without_a_queue_it_asks_for_all_of_them(on_cluster: OnCluster) -> None:
    request = training(on_cluster, held=0)
    thread, got, _ = started(on_cluster, None, request)
    thread.join()
    assert got[0].attempts == 1
    assert gpus(attempts_at(on_cluster.store, request.address)[0]) == (2, 2)


@pytest.mark.parametrize(("there", "taken"), [(8, 8), (7, 4), (2, 2), (0, 2)])
def test_on_this_machine_it_takes_what_is_there(
    store: Store, monkeypatch: pytest.MonkeyPatch, there: int, taken: int
) -> None:
    monkeypatch.setattr("ft_resources.launchers.local.local_gpus", lambda: there)
    request = replace(request_for("write"), resources=Resources(gpus=8, gpu_sizes=(8, 4, 2)))
    assert LocalLauncher().gpus_now(*claimed(store, request)) == taken
