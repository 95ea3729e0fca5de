"""On a cluster with Kueue: who waited long is admitted first, and who is nearly done is not preempted."""

import time
import uuid
from dataclasses import replace
from typing import Any

import pytest

from ft_resources.attempts import Attempt
from ft_resources.kubernetes import names
from ft_resources.kubernetes.ageing import all_classes
from ft_resources.work import Priority, WorkRequest
from tests.cluster.fixtures import until
from tests.resources.launchers.conftest import OnCluster

pytestmark = pytest.mark.cluster
HOUR = 3600.0


def queued(on_cluster: OnCluster, *, classes: bool = True) -> dict[str, Any]:
    """Settings with a queue of one GPU and, with ``classes``, priority classes of their own on the cluster."""
    suffix = uuid.uuid4().hex[:6]
    bases: dict[Priority, str] = {"production": f"high-{suffix}", "batch": f"low-{suffix}"}
    for priority, base in bases.items():
        for name, value in all_classes(priority, base).items() if classes else ():
            on_cluster.access.make("workloadpriorityclasses", "WorkloadPriorityClass", name, {"value": value})
    return {"queue": on_cluster.access.queue(gpus=1), "priority_classes": bases}


def aged(on_cluster: OnCluster, settings: dict[str, Any], *, later_s: float = 0.0) -> str:
    """The changes that a look at the queue reports, by a clock that is so much ahead."""
    queue = on_cluster.launcher(clock=lambda: time.time() + later_s, **settings).queue
    assert queue is not None
    return queue.age(on_cluster.store)[0]


def asked(on_cluster: OnCluster, priority: Priority, text: str, **runtime: Any) -> WorkRequest:
    found = on_cluster.work(text, held=1, gpus=1, priority=priority)
    return replace(found, runtime=found.runtime | runtime)


def wears(on_cluster: OnCluster, attempt: Attempt) -> str:
    """The Job's class without what makes it this test's own, such as ``low-age-3``."""
    label = (on_cluster.job(attempt) or {})["metadata"]["labels"][names.PRIORITY]
    kind, _, *rest = label.split("-")
    return "-".join([kind, *rest])


def test_a_job_that_waited_long_is_admitted_before_a_younger_one_of_a_higher_class(on_cluster: OnCluster) -> None:
    settings = queued(on_cluster)
    now, first = on_cluster.launched(asked(on_cluster, "production", "first"), **settings)
    until(lambda: now.why_waiting(first).reason == "running")
    assert "1 given" in aged(on_cluster, settings)
    _, old = on_cluster.launched(asked(on_cluster, "batch", "old"), **settings)
    until(lambda: now.why_waiting(old).reason == "quota")
    assert "1 given another priority class" in aged(on_cluster, settings, later_s=13 * HOUR)
    assert (wears(on_cluster, first), wears(on_cluster, old)) == ("high-running", "low-age-3")
    _, young = on_cluster.launched(asked(on_cluster, "production", "young"), **settings)
    until(lambda: now.why_waiting(young).reason == "quota")
    # Who runs is not put out by who only waited.
    assert now.why_waiting(first).reason == "running"
    now.discard(first, refund="none")
    until(lambda: now.why_waiting(old).reason == "running")
    assert on_cluster.pods(young) == []


@pytest.mark.parametrize("trained", [50, 90])
def test_a_job_at_ninety_percent_is_not_preempted_and_one_at_fifty_is(on_cluster: OnCluster, trained: int) -> None:
    settings = queued(on_cluster)
    request = asked(on_cluster, "batch", "a", trained=trained)
    cluster, low = on_cluster.launched(request, **settings)
    on_cluster.place().begun(request, "training")
    aged(on_cluster, settings)
    assert wears(on_cluster, low) == ("low-done" if trained == 90 else "low-running")
    _, high = on_cluster.launched(asked(on_cluster, "production", "b"), **settings)
    until(lambda: cluster.why_waiting(high).reason == ("quota" if trained == 90 else "running"))
    assert bool(on_cluster.job(low)["spec"]["suspend"]) is (trained == 50)  # type: ignore[index]


def test_a_second_tick_relabels_nothing_and_without_its_classes_neither_does_the_first(on_cluster: OnCluster) -> None:
    settings = queued(on_cluster)
    on_cluster.launched(asked(on_cluster, "batch", "a"), **settings)
    assert [aged(on_cluster, settings, later_s=5 * HOUR).partition(": ")[2][:1] for _ in range(2)] == ["1", "0"]
    bare = queued(on_cluster, classes=False)
    assert "0 given" in aged(on_cluster, bare, later_s=99 * HOUR)


def test_a_cluster_without_a_queue_is_not_asked_for_anything(on_cluster: OnCluster) -> None:
    assert on_cluster.launcher().queue is None
