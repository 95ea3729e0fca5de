"""On a cluster: work whose nodes are made first, whose pods are late, or that Kueue sends to another cluster."""

from collections.abc import Iterator

import pytest
import yaml

from ft_resources.attempts import Attempt
from ft_resources.kubernetes.causes import Cause
from ft_resources.kubernetes.kueue_nodes import PROVISION
from ft_resources.kubernetes.names import job_name
from ft_resources.launchers.base import LaunchState
from ft_resources.outcomes import Outcome
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import until
from tests.cluster.multikueue import MultiKueue
from tests.cluster.objects import NAMESPACES, PODS, SERVICES, Object
from tests.k8s.applied import apply
from tests.k8s.chart import K8S
from tests.resources.launchers.conftest import OnCluster
from tests.resources.small_work import outcome

pytestmark = pytest.mark.cluster


def test_work_waits_for_its_nodes_to_be_made_and_says_so(on_cluster: OnCluster) -> None:
    access = on_cluster.access
    check = access.check(PROVISION)
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=1), queue=access.queue(gpus=1, check=check))
    until(lambda: launcher.why_waiting(attempt).reason == "provisioning")
    job = (on_cluster.job(attempt) or {})["metadata"]["name"]
    access.answer(job, check, "Pending", "2 nodes in 4 minutes")
    until(lambda: launcher.why_waiting(attempt).said == "2 nodes in 4 minutes")
    access.answer(job, check, "Ready")
    until(lambda: outcome(attempt) is Outcome.DONE)


def test_nodes_that_cannot_be_made_are_told_with_who_can_change_that(on_cluster: OnCluster) -> None:
    access = on_cluster.access
    check = access.check(PROVISION)
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=1), queue=access.queue(gpus=1, check=check))
    access.answer((on_cluster.job(attempt) or {})["metadata"]["name"], check, "Rejected", "no such machine type")
    until(lambda: "gave up" in launcher.why_waiting(attempt).what)
    waiting = launcher.why_waiting(attempt)
    assert (waiting.reason, waiting.said) == ("provisioning", "no such machine type")


def test_pods_that_are_late_cost_no_attempt(on_cluster: OnCluster) -> None:
    access = on_cluster.access
    access.machines.pods_ready.timeout_s = 0.2
    access.machines.remove_node("n1")
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=1), queue=access.queue(gpus=1))
    until(lambda: launcher.why_waiting(attempt).reason == "pods_not_ready")
    assert outcome(attempt) is None
    access.machines.pods_ready.timeout_s = 600.0
    access.machines.add_node("n2")
    until(lambda: outcome(attempt) is Outcome.DONE)
    assert attempt.number == 1


@pytest.fixture
def elsewhere(on_cluster: OnCluster) -> Iterator[Cluster]:
    """Another cluster, where the Jobs of queues with the check ``ft-clusters`` run."""
    access = on_cluster.access
    here, there = access.machines, Cluster(kueue=False)
    here.remove_node("n1")
    there.objects.create(NAMESPACES, "", {"metadata": {"name": access.namespace}})
    apply(here, yaml.safe_load_all((K8S / "kueue" / "multikueue.yaml").read_text()))
    sender = MultiKueue(here, there)
    yield there
    sender.close()
    there.close()


def pods_of(cluster: Cluster, attempt: Attempt) -> list[Object]:
    return cluster.objects.list(PODS, "", lambda pod: job_name(attempt.address, 1) in pod["metadata"]["name"])


def test_work_on_one_node_that_kueue_sends_to_another_cluster_ends_by_its_exit_code(
    on_cluster: OnCluster, elsewhere: Cluster
) -> None:
    queue = on_cluster.access.queue(gpus=8, check="ft-clusters")
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=1), queue=queue)
    until(lambda: pods_of(elsewhere, attempt))
    assert pods_of(on_cluster.access.machines, attempt) == []
    until(lambda: launcher.state(attempt) is LaunchState.GONE)
    assert outcome(attempt) is Outcome.DONE
    launcher.clean_up(attempt)
    place = attempt.place() or {}
    assert (place["cause"], place["evidence"]["pods"]) == ("worker", [])
    assert place["started_at"] is not None


def test_why_a_pod_on_another_cluster_was_killed_is_not_known_here(on_cluster: OnCluster, elsewhere: Cluster) -> None:
    queue = on_cluster.access.queue(gpus=8, check="ft-clusters")
    launcher, attempt = on_cluster.launched(on_cluster.work(gpus=1, held=1), queue=queue)
    until(attempt.progress)
    (pod,) = pods_of(elsewhere, attempt)
    elsewhere.kill_processes(pod["metadata"]["namespace"], pod["metadata"]["name"], out_of_memory=True)
    until(lambda: launcher.state(attempt) is LaunchState.GONE)
    launcher.clean_up(attempt)
    assert (attempt.place() or {})["cause"] == Cause.KILLED


def test_the_service_by_which_ranks_meet_stays_behind_when_kueue_sends_their_job_away(
    on_cluster: OnCluster, elsewhere: Cluster
) -> None:
    queue = on_cluster.access.queue(gpus=8, check="ft-clusters")
    _, attempt = on_cluster.launched(on_cluster.work(gpus=1, nodes=2), queue=queue)
    until(lambda: len(pods_of(elsewhere, attempt)) == 2)
    assert [each["metadata"]["name"] for each in on_cluster.access.machines.objects.list(SERVICES)]
    assert elsewhere.objects.list(SERVICES) == []
