"""Each way in which a pod can end on a cluster is told apart, and leads to the attempt that should follow."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from ft_resources.attempts import PREFLIGHT, Attempt, attempts_at
from ft_resources.errors import UserError, WorkFailed
from ft_resources.kubernetes.api import jobs, pods
from ft_resources.kubernetes.causes import Cause
from ft_resources.outcomes import Outcome
from tests.cluster.fixtures import until
from tests.cluster.objects import PODS, has
from tests.resources.kubernetes.specs import IMAGE
from tests.resources.launchers.conftest import OnCluster
from tests.resources.small_work import Watcher, claimed, in_thread, outcome

pytestmark = pytest.mark.cluster


def ended_as(attempt: Attempt, *causes: str) -> dict:
    """The record of the attempt's place, once it is there."""
    place = until(attempt.place)
    assert place["cause"] in causes, place
    return place


def pod_of(on_cluster: OnCluster, attempt: Attempt) -> tuple[str, str]:
    """Names of the attempt's pod and of its node."""
    (pod,) = on_cluster.pods(attempt)
    return pod["metadata"]["name"], pod["spec"]["nodeName"]


def test_a_finished_attempt_leaves_when_and_where_it_ran(on_cluster: OnCluster) -> None:
    request = replace(on_cluster.work(), runtime={"seconds": 1.5})
    on_cluster.place().execution().run(request, actor="a")
    (attempt,) = attempts_at(on_cluster.store, request.address)
    place = ended_as(attempt, Cause.WORKER)
    assert (place["exit_code"], place["refund"], place["capacity"]) == (0, "none", "on-demand")
    assert place["queued_at"] <= place["started_at"] <= place["ended_at"]
    # Times of a cluster are whole seconds.
    assert place["ended_at"] - place["started_at"] >= 1.0


def drain_node(on_cluster: OnCluster, attempt: Attempt) -> None:
    path = pods(on_cluster.access.namespace, pod_of(on_cluster, attempt)[0])
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": path.rpartition("/")[2]}}
    on_cluster.api().create(f"{path}/eviction", eviction)


def delete_job(on_cluster: OnCluster, attempt: Attempt) -> None:
    job = (on_cluster.job(attempt) or {})["metadata"]["name"]
    on_cluster.api().delete(jobs(on_cluster.access.namespace, job), propagationPolicy="Background")


def delete_pod(on_cluster: OnCluster, attempt: Attempt) -> None:
    on_cluster.api().delete(pods(on_cluster.access.namespace, pod_of(on_cluster, attempt)[0]))


def lose_node(on_cluster: OnCluster, attempt: Attempt) -> None:
    """Its pod still reads Running, until a cloud removes the machine's Node."""
    machines, (_, node) = on_cluster.access.machines, pod_of(on_cluster, attempt)
    machines.add_node("n2")
    machines.lose_node(node)
    (pod,) = until(lambda: machines.objects.list(PODS, "", lambda pod: has(pod, "DisruptionTarget")))
    assert pod["status"]["phase"] == "Running"
    before = len(machines.server.requests)
    # The second time, whoever waits for the Job has the answer to the first.
    until(lambda: sum("/pods?" in line for _, line in list(machines.server.requests)[before:]) > 1)
    machines.remove_node(node)


@pytest.mark.parametrize(
    ("end", "causes", "refund"),
    [
        # A worker that ends within the time in which a Job controller collects news may be gone before the Job says
        # that it ended, and with it who evicted it. Either way nobody pays.
        (drain_node, (Cause.DRAINED, Cause.DISRUPTED), "full"),
        (delete_job, (Cause.DELETED,), "flagged"),
        (delete_pod, (Cause.STOPPED,), "flagged"),
        (lose_node, (Cause.NODE_LOST,), "full"),
        # The cluster does not know who did it.
        (OnCluster.kill, (Cause.KILLED,), "flagged"),
    ],
)
def test_work_that_is_ended_from_outside_goes_on_and_its_cause_decides_who_pays(
    on_cluster: OnCluster, end: Callable[[OnCluster, Attempt], None], causes: tuple[Cause, ...], refund: str
) -> None:
    thread, got, attempt, watcher = on_cluster.start(on_cluster.work(held=1))
    end(on_cluster, attempt)
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert watcher.retries == 1
    place = ended_as(attempt, *causes)
    assert place["refund"] == refund
    if end is OnCluster.kill:
        assert place["exit_code"] == 137


def test_spot_nodes_that_are_taken_away_lead_to_on_demand(on_cluster: OnCluster) -> None:
    machines = on_cluster.access.machines
    machines.remove_node("n1")
    for number in range(2):
        machines.add_node(f"spot-{number}", labels={"capacity": "spot"})
    machines.add_node("steady", labels={"capacity": "on-demand"})
    changes = {
        "spot_nodes": {"node_selector": {"capacity": "spot"}},
        "on_demand": {"node_selector": {"capacity": "on-demand"}},
        "spot_losses": 1,
    }
    request = on_cluster.work(held=1, spot=True)
    thread, got, attempt, _ = on_cluster.start(request, **changes)
    machines.preempt_spot(pod_of(on_cluster, attempt)[1])
    thread.join()
    first, second = attempts_at(on_cluster.store, request.address)
    assert ended_as(first, Cause.SPOT_RECLAIMED)["capacity"] == "spot"
    assert ended_as(second, Cause.WORKER)["capacity"] == "on-demand"
    assert got[0].artifact.facts == {"attempt": 2}


def test_a_node_that_was_found_not_well_is_avoided_by_the_attempts_after_it(on_cluster: OnCluster) -> None:
    on_cluster.access.machines.add_node("steady")
    request = on_cluster.work()
    first = Attempt(on_cluster.store, request.address, 1)
    first.claim("a")
    on_cluster.store.put_json(f"{first.path}/{PREFLIGHT}", {"sick": {"n1": "it has no spare memory rows left"}})
    first.record_ending(Outcome.PLATFORM_ERROR)
    on_cluster.place().execution().run(request, actor="a")
    second = Attempt(on_cluster.store, request.address, 2)
    assert [pod["node"] for pod in ended_as(second, Cause.WORKER)["evidence"]["pods"]] == ["steady"]


def test_a_node_that_goes_with_its_pods_before_anybody_looks_is_a_lost_node(on_cluster: OnCluster) -> None:
    """A cloud removes the machine's Node, and the garbage collector its pods: nothing is left that says why."""
    machines = on_cluster.access.machines
    thread, got, attempt, _ = on_cluster.start(on_cluster.work(held=1), look_every_s=600.0)
    _, node = pod_of(on_cluster, attempt)
    machines.add_node("n2")
    kubelet = machines.kubelets[node]
    kubelet.lose()
    for runner in kubelet.pods.values():
        runner.join()
    # It is noticed a minute later.
    beat = attempt.progress()
    on_cluster.store.put_json(f"{attempt.path}/progress.json", {**beat, "at": beat["at"] - 60.0})
    machines.remove_node(node)
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert ended_as(attempt, Cause.NODE_LOST)["refund"] == "full"


def test_host_memory_that_is_used_up_is_out_of_memory(on_cluster: OnCluster) -> None:
    thread, got, attempt, _ = on_cluster.start(on_cluster.work(held=1))
    pod, _ = pod_of(on_cluster, attempt)
    on_cluster.access.machines.kill_processes(on_cluster.access.namespace, pod, out_of_memory=True)
    thread.join()
    assert isinstance(got[0], WorkFailed)
    assert "ran out of memory" in str(got[0])
    assert "hardware.memory_gib" in got[0].remedy
    assert ended_as(attempt, Cause.OOM_KILLED)["refund"] == "none"


def test_an_image_that_cannot_be_fetched_fails_and_is_removed(on_cluster: OnCluster) -> None:
    image = IMAGE.replace("registry.example", "registry.invalid")
    request = on_cluster.work()
    with pytest.raises(WorkFailed, match="image could not be fetched"):
        on_cluster.place(image=image, image_pull_timeout_s=0.1).execution().run(request, actor="a")
    attempts = attempts_at(on_cluster.store, request.address)
    assert len(attempts) == 3
    assert {ended_as(attempt, Cause.IMAGE_PULL)["cause"] for attempt in attempts} == {Cause.IMAGE_PULL}
    until(lambda: not any(on_cluster.job(attempt) for attempt in attempts))


def test_a_container_that_cannot_start_is_named_and_stopped_after_three_attempts(on_cluster: OnCluster) -> None:
    """A node without its driver, or an image without our Python: the real one made 21 pods in 40 seconds."""
    on_cluster.access.machines.refuse_starts("nvidia-container-cli: initialization error: driver not loaded")
    delays: list[float] = []

    class Retries(Watcher):
        def retrying(self, ending: object, delay_s: float, change: str) -> None:
            delays.append(delay_s)

    request = on_cluster.work()
    with pytest.raises(WorkFailed, match=r"could not be started .StartError: .*driver not loaded"):
        on_cluster.place().execution().run(request, actor="a", observer=Retries())
    attempts = attempts_at(on_cluster.store, request.address)
    assert len(attempts) == 3
    assert {(each["refund"], each["exit_code"]) for each in (ended_as(one, Cause.NOT_STARTED) for one in attempts)} == {
        ("full", 128)
    }
    first, second = delays
    assert first < second


def test_an_attempt_that_runs_too_long_is_ended_and_not_tried_again(on_cluster: OnCluster) -> None:
    request = on_cluster.work(held=1)
    limit_s = on_cluster.access.long_s
    thread, got, attempt, _ = on_cluster.start(request, run_timeout_s=limit_s)
    on_cluster.access.after(limit_s)
    thread.join()
    # The worker says that it was stopped; the cluster knows why.
    assert ended_as(attempt, Cause.RUN_TIMEOUT)["refund"] == "none"
    assert isinstance(got[0], WorkFailed)
    assert "reached its time limit" in str(got[0])
    assert len(attempts_at(on_cluster.store, request.address)) == 1


def test_a_cancelled_attempt_was_stopped_by_us(on_cluster: OnCluster) -> None:
    request = on_cluster.work(held=1)
    thread, _, attempt, _ = on_cluster.start(request)
    on_cluster.place().execution().cancel(request.address, actor="a")
    thread.join()
    assert ended_as(attempt, Outcome.CANCELLED)["refund"] == "none"
    assert on_cluster.job(attempt) is None


def test_cancelling_waiting_work_is_told_as_cancelled_and_by_whom(on_cluster: OnCluster) -> None:
    """Who waits for it sees its Job vanish, as if somebody had deleted it."""
    queue = on_cluster.access.queue(gpus=1)
    request = on_cluster.work(gpus=4)
    execution = on_cluster.place(queue=queue).execution()
    thread, got = in_thread(lambda: execution.run(request, actor="a"))
    attempt = Attempt(on_cluster.store, request.address, 1)
    until(lambda: attempt.launch() and on_cluster.job(attempt))
    on_cluster.place(queue=queue).execution().cancel(request.address, actor="ann")
    thread.join()
    assert isinstance(got[0], WorkFailed)
    assert "was cancelled: ann cancelled it before it started" in str(got[0])
    assert "not by this platform" not in str(got[0])
    assert "nothing is billed" in got[0].remedy
    assert ended_as(attempt, Outcome.CANCELLED)["started_at"] is None


def test_work_that_kueue_preempts_saves_and_is_queued_again(on_cluster: OnCluster) -> None:
    queue = on_cluster.access.queue(gpus=1)
    changes = {"queue": queue, "priority_classes": on_cluster.access.priorities(batch=1, production=2)}
    thread, got, attempt, _ = on_cluster.start(on_cluster.work(held=1, gpus=1, priority="batch"), **changes)
    high = on_cluster.work("y", gpus=1, priority="production")
    on_cluster.place(**changes).execution().run(high, actor="b")
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert ended_as(attempt, Cause.QUEUE_PREEMPTION)["refund"] == "full"
    assert on_cluster.job(attempt) is None, "it would start again and do nothing"


def test_waiting_longer_than_the_queue_timeout_is_told_from_running_too_long(on_cluster: OnCluster) -> None:
    queue = on_cluster.access.queue(gpus=1)
    request = on_cluster.work(gpus=4)
    with pytest.raises(WorkFailed, match="its pods took longer to start"):
        on_cluster.place(queue=queue, queue_timeout_s=0.1, run_timeout_s=3600.0).execution().run(request, actor="a")
    (attempt,) = attempts_at(on_cluster.store, request.address)
    place = ended_as(attempt, Cause.QUEUE_TIMEOUT)
    assert (place["refund"], place["started_at"]) == ("full", None)
    until(lambda: on_cluster.job(attempt) is None)


def test_nodes_of_one_job_start_and_end_together(on_cluster: OnCluster) -> None:
    thread, got, attempt, watcher = on_cluster.start(on_cluster.work(held=1, nodes=2))
    until(lambda: [pod["status"]["phase"] for pod in on_cluster.pods(attempt)] == ["Running"] * 2)
    second = next(pod for pod in on_cluster.pods(attempt) if pod["metadata"]["name"].split("-")[-2] == "1")
    on_cluster.access.machines.kill_processes(on_cluster.access.namespace, second["metadata"]["name"])
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert watcher.retries == 1
    assert outcome(attempt) is Outcome.PREEMPTED
    until(lambda: all(pod["status"]["phase"] != "Running" for pod in on_cluster.pods(attempt)))


def test_a_launch_whose_answer_was_lost_finds_its_own_job(on_cluster: OnCluster) -> None:
    """The API server created the Job, and then its connection broke: trying again must not be an error."""
    request = on_cluster.work()
    spec, attempt = claimed(on_cluster.store, request)
    for _ in range(2):
        on_cluster.launcher().launch(spec, attempt)
    assert on_cluster.place().execution().run(request, actor="b").artifact.facts == {"attempt": 1}


def test_a_job_of_another_platform_with_this_name_is_not_taken_over(on_cluster: OnCluster) -> None:
    spec, attempt = claimed(on_cluster.store, on_cluster.work())
    launcher = on_cluster.launcher()
    launcher.launch(spec.model_copy(update={"store_url": "file:///elsewhere"}), attempt)
    with pytest.raises(UserError, match="used by another"):
        launcher.launch(spec, attempt)
