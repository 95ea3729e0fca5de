"""On a cluster with Kueue: who waited long is admitted first, and who is nearly done is not preempted."""

import time
import uuid
from dataclasses import replace
from typing import Any

import pytest

from ft_resources.attempts import Attempt
from ft_resources.kubernetes import names
from ft_resources.kubernetes.ageing import all_classes
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.work import Priority, WorkRequest
from tests.cluster.fixtures import until
from tests.resources.launchers.conftest import FAKE, OnCluster
from tests.resources.small_work import claimed

pytestmark = pytest.mark.cluster
HOUR = 3600.0


def queued(on_cluster: OnCluster, *, classes: bool = True, **changes: Any) -> KubernetesSettings:
    """Settings with a queue of one GPU and, with ``classes``, priority classes of their own on the cluster."""
    suffix = uuid.uuid4().hex[:6]
    bases: dict[Priority, str] = {"production": f"high-{suffix}", "batch": f"low-{suffix}"}
    for priority, base in bases.items():
        for name, value in all_classes(priority, base).items() if classes else ():
            on_cluster.access.make("workloadpriorityclasses", "WorkloadPriorityClass", name, {"value": value})
    return on_cluster.settings(queue=on_cluster.access.queue(gpus=1), priority_classes=bases, **changes)


def launcher(on_cluster: OnCluster, settings: KubernetesSettings, *, later_s: float = 0.0) -> KubernetesLauncher:
    """As a process has it whose clock is so much ahead."""
    return KubernetesLauncher(settings, on_cluster.api(), module=FAKE, clock=lambda: time.time() + later_s)


def aged(on_cluster: OnCluster, cluster: KubernetesLauncher) -> str:
    """What a look at the queue says that it did."""
    assert cluster.queue is not None
    return cluster.queue.age(on_cluster.store)[0]


def asked(on_cluster: OnCluster, priority: Priority, text: str, **runtime: Any) -> WorkRequest:
    found = on_cluster.work(text, held=1, gpus=1, priority=priority)
    return replace(found, runtime=found.runtime | runtime)


def launched(on_cluster: OnCluster, settings: KubernetesSettings, request: WorkRequest) -> Attempt:
    """An attempt whose Job is there, and that nobody waits for."""
    spec, attempt = claimed(on_cluster.store, request)
    launcher(on_cluster, settings).launch(spec, attempt)
    return attempt


def wears(on_cluster: OnCluster, attempt: Attempt) -> str:
    """The Job's class without what makes it this test's own, such as ``low-age-3``."""
    label = (on_cluster.job(attempt) or {})["metadata"]["labels"][names.PRIORITY]
    kind, _, *rest = label.split("-")
    return "-".join([kind, *rest])


def test_a_job_that_waited_long_is_admitted_before_a_younger_one_of_a_higher_class(on_cluster: OnCluster) -> None:
    settings = queued(on_cluster)
    now = launcher(on_cluster, settings)
    first = launched(on_cluster, settings, asked(on_cluster, "production", "first"))
    until(lambda: now.why_waiting(first).reason == "running")
    assert "1 given" in aged(on_cluster, now)
    old = launched(on_cluster, settings, asked(on_cluster, "batch", "old"))
    until(lambda: now.why_waiting(old).reason == "quota")
    text = aged(on_cluster, launcher(on_cluster, settings, later_s=13 * HOUR))
    assert "1 given another priority class" in text
    assert (wears(on_cluster, first), wears(on_cluster, old)) == ("high-running", "low-age-3")
    young = launched(on_cluster, settings, asked(on_cluster, "production", "young"))
    until(lambda: now.why_waiting(young).reason == "quota")
    # Who runs is not put out by who only waited.
    assert now.why_waiting(first).reason == "running"
    now.discard(first, refund="none")
    until(lambda: now.why_waiting(old).reason == "running")
    assert on_cluster.pods(young) == []


@pytest.mark.parametrize("trained", [50, 90])
def test_a_job_at_ninety_percent_is_not_preempted_and_one_at_fifty_is(on_cluster: OnCluster, trained: int) -> None:
    settings = queued(on_cluster)
    cluster = launcher(on_cluster, settings)
    request = asked(on_cluster, "batch", "a", trained=trained)
    low = launched(on_cluster, settings, request)
    on_cluster.place().begun(request, "training")
    aged(on_cluster, cluster)
    assert wears(on_cluster, low) == ("low-done" if trained == 90 else "low-running")
    high = launched(on_cluster, settings, asked(on_cluster, "production", "b"))
    until(lambda: cluster.why_waiting(high).reason == ("quota" if trained == 90 else "running"))
    assert bool(on_cluster.job(low)["spec"]["suspend"]) is (trained == 50)  # type: ignore[index]


def test_a_second_tick_relabels_nothing_and_without_its_classes_neither_does_the_first(on_cluster: OnCluster) -> None:
    settings = queued(on_cluster)
    launched(on_cluster, settings, asked(on_cluster, "batch", "a"))
    later = launcher(on_cluster, settings, later_s=5 * HOUR)
    assert [aged(on_cluster, later).partition(": ")[2][:1] for _ in range(2)] == ["1", "0"]
    bare = queued(on_cluster, classes=False)
    assert "0 given" in aged(on_cluster, launcher(on_cluster, bare, later_s=99 * HOUR))


def test_a_cluster_without_a_queue_is_not_asked_for_anything(on_cluster: OnCluster) -> None:
    assert launcher(on_cluster, on_cluster.settings()).queue is None
