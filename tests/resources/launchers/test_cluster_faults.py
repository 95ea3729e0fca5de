"""Each way in which a pod can end on a cluster is told apart, and leads to the attempt that should follow."""

import time
from dataclasses import replace

import pytest

from ft_resources.attempts import PREFLIGHT, Attempt, attempts_at
from ft_resources.errors import UserError, WorkFailed
from ft_resources.execution import Execution
from ft_resources.kubernetes.api import jobs
from ft_resources.kubernetes.causes import Cause
from ft_resources.outcomes import Outcome
from ft_resources.work import Resources, WorkRequest
from tests.cluster.fixtures import until
from tests.resources.kubernetes.specs import IMAGE
from tests.resources.launchers.conftest import OnCluster
from tests.resources.small_work import Watcher, in_thread

pytestmark = pytest.mark.cluster


def work(
    on_cluster: OnCluster, *, text: str = "x", seconds: float = 6.0, nodes: int = 1, **resources: object
) -> WorkRequest:
    runtime = {"seconds": seconds, **({"nodes": nodes} if nodes > 1 else {})}
    request = on_cluster.place().request("write", text=text, runtime=runtime)
    return replace(request, resources=Resources(**resources))  # type: ignore[arg-type]


def start(on_cluster: OnCluster, request: WorkRequest, **changes: object):
    """The work under way in a thread, its first attempt once its worker reports, and its watcher."""
    watcher = Watcher()
    execution = on_cluster.place(**changes).execution()
    thread, got = in_thread(lambda: execution.run(request, actor="a", observer=watcher))
    return thread, got, on_cluster.place().begun(request), watcher


def ended_as(attempt: Attempt, cause: str) -> dict:
    """The record of the attempt's place, once it is there."""
    place = until(attempt.place)
    assert place["cause"] == cause, place
    return place


def node_of(on_cluster: OnCluster, attempt: Attempt) -> str:
    return on_cluster.pods(attempt)[0]["spec"]["nodeName"]


def test_a_finished_attempt_leaves_when_and_where_it_ran(on_cluster: OnCluster) -> None:
    request = work(on_cluster, seconds=2.5)
    on_cluster.place().execution().run(request, actor="a")
    (attempt,) = attempts_at(on_cluster.store, request.address)
    place = ended_as(attempt, Cause.WORKER)
    assert (place["exit_code"], place["refund"], place["capacity"]) == (0, "none", "on-demand")
    assert place["queued_at"] <= place["started_at"] <= place["ended_at"]
    assert place["ended_at"] - place["started_at"] >= 1.0


def test_a_drained_node_is_a_preemption_that_the_work_outlives(on_cluster: OnCluster) -> None:
    request = work(on_cluster)
    thread, got, attempt, watcher = start(on_cluster, request)
    pod = on_cluster.pods(attempt)[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}
    on_cluster.api().create(f"/api/v1/namespaces/{on_cluster.access.namespace}/pods/{pod}/eviction", eviction)
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    # This worker ends within the second in which a Job controller collects news: its pod may be gone before the Job
    # says that it ended, and with it who evicted it. Either way nobody pays.
    place = until(attempt.place)
    assert place["cause"] in (Cause.DRAINED, Cause.DISRUPTED)
    assert place["refund"] == "full"
    assert watcher.retries == 1


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
    request = work(on_cluster, spot=True, seconds=4.0)
    thread, got, attempt, _ = start(on_cluster, request, **changes)
    machines.preempt_spot(node_of(on_cluster, attempt))
    thread.join()
    first, second = attempts_at(on_cluster.store, request.address)
    assert ended_as(first, Cause.SPOT_RECLAIMED)["capacity"] == "spot"
    assert ended_as(second, Cause.WORKER)["capacity"] == "on-demand"
    assert got[0].artifact.facts == {"attempt": 2}


def test_a_node_that_was_found_not_well_is_avoided_by_the_attempts_after_it(on_cluster: OnCluster) -> None:
    on_cluster.access.machines.add_node("steady")
    request = work(on_cluster, seconds=0.5)
    first = Attempt(on_cluster.store, request.address, 1)
    first.claim("a")
    on_cluster.store.put_json(f"{first.path}/{PREFLIGHT}", {"sick": {"n1": "it has no spare memory rows left"}})
    first.record_ending(Outcome.PLATFORM_ERROR)
    on_cluster.place().execution().run(request, actor="a")
    second = Attempt(on_cluster.store, request.address, 2)
    assert [pod["node"] for pod in ended_as(second, Cause.WORKER)["evidence"]["pods"]] == ["steady"]


def test_a_lost_node_is_seen_though_its_pod_still_reads_running(on_cluster: OnCluster) -> None:
    machines = on_cluster.access.machines
    request = work(on_cluster)
    thread, got, attempt, _ = start(on_cluster, request)
    machines.add_node("n2")
    machines.lose_node(node_of(on_cluster, attempt), removed_after_s=2.0)
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert ended_as(attempt, Cause.NODE_LOST)["refund"] == "full"


def test_a_node_that_goes_with_its_pods_before_anybody_looks_is_a_lost_node(
    on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cloud removes the machine's Node, and the garbage collector its pods: nothing is left that says why."""
    monkeypatch.setattr("ft_resources.kubernetes.endings._SILENT_S", 2.0)
    machines = on_cluster.access.machines
    request = work(on_cluster)
    thread, got, attempt, _ = start(on_cluster, request, look_every_s=60.0)
    node = node_of(on_cluster, attempt)
    machines.add_node("n2")
    machines.kubelets[node].lose()
    time.sleep(4.0)
    machines.remove_node(node)
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert ended_as(attempt, Cause.NODE_LOST)["refund"] == "full"


def test_host_memory_that_is_used_up_is_out_of_memory(on_cluster: OnCluster) -> None:
    request = work(on_cluster, seconds=60.0)
    thread, got, attempt, _ = start(on_cluster, request)
    pod = on_cluster.pods(attempt)[0]["metadata"]["name"]
    on_cluster.access.machines.kill_processes(on_cluster.access.namespace, pod, out_of_memory=True)
    thread.join()
    assert isinstance(got[0], WorkFailed)
    assert "ran out of memory" in str(got[0])
    assert "hardware.memory_gib" in got[0].remedy
    assert ended_as(attempt, Cause.OOM_KILLED)["refund"] == "none"


def test_an_image_that_cannot_be_fetched_fails_and_is_removed(on_cluster: OnCluster) -> None:
    image = IMAGE.replace("registry.example", "registry.invalid")
    execution = replace(
        on_cluster.place(image=image, image_pull_timeout_s=1.0).execution(), sleep=lambda s: time.sleep(0.05)
    )
    request = work(on_cluster)
    with pytest.raises(WorkFailed, match="image could not be fetched"):
        execution.run(request, actor="a")
    attempts = attempts_at(on_cluster.store, request.address)
    assert len(attempts) == 3
    assert {attempt.place()["cause"] for attempt in attempts} == {Cause.IMAGE_PULL}
    until(lambda: not any(on_cluster.job(attempt) for attempt in attempts))


def test_a_container_that_cannot_start_is_named_and_stopped_after_three_attempts(on_cluster: OnCluster) -> None:
    """A node without its driver, or an image without our Python: the real one made 21 pods in 40 seconds."""
    on_cluster.access.machines.refuse_starts("nvidia-container-cli: initialization error: driver not loaded")
    delays: list[float] = []

    class Retries(Watcher):
        def retrying(self, ending: object, delay_s: float, change: str) -> None:
            delays.append(delay_s)

    execution = replace(on_cluster.place().execution(), sleep=lambda s: time.sleep(0.05))
    request = work(on_cluster)
    with pytest.raises(WorkFailed, match=r"could not be started .StartError: .*driver not loaded"):
        execution.run(request, actor="a", observer=Retries())
    attempts = attempts_at(on_cluster.store, request.address)
    assert len(attempts) == 3
    assert {(attempt.place()["cause"], attempt.place()["refund"]) for attempt in attempts} == {("not_started", "full")}
    assert {attempt.place()["exit_code"] for attempt in attempts} == {128}
    first, second = delays
    assert first < second


def test_an_attempt_that_runs_too_long_is_ended_and_not_tried_again(on_cluster: OnCluster) -> None:
    request = work(on_cluster, seconds=60.0)
    thread, got, attempt, _ = start(on_cluster, request, run_timeout_s=4.0)
    thread.join()
    # The worker says that it was stopped; the cluster knows why.
    assert ended_as(attempt, Cause.RUN_TIMEOUT)["refund"] == "none"
    assert isinstance(got[0], WorkFailed)
    assert "reached its time limit" in str(got[0])
    assert len(attempts_at(on_cluster.store, request.address)) == 1


def test_a_job_that_is_deleted_by_hand_goes_on_and_is_flagged(on_cluster: OnCluster) -> None:
    request = work(on_cluster)
    thread, got, attempt, _ = start(on_cluster, request)
    job = on_cluster.job(attempt)["metadata"]["name"]
    on_cluster.api().delete(jobs(on_cluster.access.namespace, job), propagationPolicy="Background")
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert ended_as(attempt, Cause.DELETED)["refund"] == "flagged"


def test_a_pod_that_is_deleted_by_hand_goes_on_and_is_flagged(on_cluster: OnCluster) -> None:
    request = work(on_cluster)
    thread, got, attempt, _ = start(on_cluster, request)
    pod = on_cluster.pods(attempt)[0]["metadata"]["name"]
    on_cluster.api().delete(f"/api/v1/namespaces/{on_cluster.access.namespace}/pods/{pod}")
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert ended_as(attempt, Cause.STOPPED)["refund"] == "flagged"


def test_a_killed_process_is_flagged_as_the_cluster_does_not_know_who_did_it(on_cluster: OnCluster) -> None:
    request = work(on_cluster)
    thread, got, attempt, _ = start(on_cluster, request)
    on_cluster.kill(attempt)
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    place = ended_as(attempt, Cause.KILLED)
    assert (place["exit_code"], place["refund"]) == (137, "flagged")


def test_a_cancelled_attempt_was_stopped_by_us(on_cluster: OnCluster) -> None:
    request = work(on_cluster, seconds=60.0)
    thread, _, attempt, _ = start(on_cluster, request)
    on_cluster.place().execution().cancel(request.address, actor="a")
    thread.join()
    assert ended_as(attempt, Outcome.CANCELLED)["refund"] == "none"
    assert on_cluster.job(attempt) is None


def test_cancelling_waiting_work_is_told_as_cancelled_and_by_whom(on_cluster: OnCluster) -> None:
    """Who waits for it sees its Job vanish, as if somebody had deleted it."""
    queue = on_cluster.access.queue(gpus=1)
    request = work(on_cluster, gpus=4)
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
    low = work(on_cluster, gpus=1, seconds=5.0, priority="batch")
    thread, got, attempt, _ = start(on_cluster, low, **changes)
    high = replace(
        on_cluster.place().request("write", text="y", runtime={"seconds": 2.0}),
        resources=Resources(gpus=1, priority="production"),
    )
    on_cluster.place(**changes).execution().run(high, actor="b")
    thread.join()
    assert got[0].artifact.facts == {"attempt": 2}
    assert ended_as(attempt, Cause.QUEUE_PREEMPTION)["refund"] == "full"
    assert on_cluster.job(attempt) is None, "it would start again and do nothing"


def test_waiting_longer_than_the_queue_timeout_is_told_from_running_too_long(on_cluster: OnCluster) -> None:
    queue = on_cluster.access.queue(gpus=1)
    request = work(on_cluster, gpus=4)
    with pytest.raises(WorkFailed, match="waited longer for its pods"):
        on_cluster.place(queue=queue, queue_timeout_s=2.0, run_timeout_s=3600.0).execution().run(request, actor="a")
    (attempt,) = attempts_at(on_cluster.store, request.address)
    place = ended_as(attempt, Cause.QUEUE_TIMEOUT)
    assert (place["refund"], place["started_at"]) == ("full", None)
    until(lambda: on_cluster.job(attempt) is None)


def test_nodes_of_one_job_start_and_end_together(on_cluster: OnCluster) -> None:
    request = work(on_cluster, nodes=2, seconds=60.0)
    thread, _got, attempt, watcher = start(on_cluster, request)
    until(lambda: len([pod for pod in on_cluster.pods(attempt) if pod["status"]["phase"] == "Running"]) == 2)
    second = next(pod for pod in on_cluster.pods(attempt) if pod["metadata"]["name"].split("-")[-2] == "1")
    kubelet = on_cluster.access.machines.kubelets[second["spec"]["nodeName"]]
    for container in kubelet.pods[second["metadata"]["uid"]].containers:
        container.kill()
    until(lambda: watcher.retries == 1)
    until(lambda: all(pod["status"]["phase"] != "Running" for pod in on_cluster.pods(attempt)))
    ending = attempt.ending()
    assert ending is not None
    assert ending.outcome is Outcome.PREEMPTED
    until(lambda: len(attempts_at(on_cluster.store, request.address)) == 2)
    on_cluster.place().execution().cancel(request.address, actor="a")
    thread.join()


def test_a_launch_whose_answer_was_lost_finds_its_own_job(on_cluster: OnCluster) -> None:
    """The API server created the Job, and then its connection broke: trying again must not be an error."""
    request = work(on_cluster, seconds=1.0)
    launcher = on_cluster.launcher()
    execution = Execution(store=on_cluster.store, launcher=launcher, poll_s=0.05)
    spec = execution._spec(request, 1, "a", 0)
    attempt = Attempt(on_cluster.store, request.address, 1)
    attempt.claim("a")
    attempt.write_spec(spec)
    launcher.launch(spec, attempt)
    on_cluster.launcher().launch(spec, attempt)
    assert execution.run(request, actor="b").artifact.facts == {"attempt": 1}


def test_a_job_of_another_platform_with_this_name_is_not_taken_over(on_cluster: OnCluster) -> None:
    request = work(on_cluster)
    launcher = on_cluster.launcher()
    execution = Execution(store=on_cluster.store, launcher=launcher)
    spec = execution._spec(request, 1, "a", 0)
    attempt = Attempt(on_cluster.store, request.address, 1)
    launcher.launch(spec.model_copy(update={"store_url": "file:///elsewhere"}), attempt)
    with pytest.raises(UserError, match="used by another"):
        launcher.launch(spec, attempt)
