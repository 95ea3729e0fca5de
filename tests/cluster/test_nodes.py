"""Pods as processes: what they say, see and share, and every way in which one ends."""

from base64 import b64encode
from typing import Any

import pytest
from kubernetes.client.exceptions import ApiException

from tests.cluster.fixtures import Access, until

SLEEP = "import time; print('up', flush=True); time.sleep(600)"
STUBBORN = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); {SLEEP}"
POLITE = (
    f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: (print('bye', flush=True), sys.exit(75))); {SLEEP}"
)


def _ended(cluster: Access, name: str) -> Any:
    """The state in which a pod's container ended."""
    pod = until(lambda: next((one for one in cluster.pods(name) if one.status.phase in ("Succeeded", "Failed")), None))
    return pod.status.container_statuses[0].state.terminated


def _disruption(pod: Any) -> str:
    found = [one.reason for one in pod.status.conditions if one.type == "DisruptionTarget" and one.status == "True"]
    return found[0] if found else ""


def test_a_log_is_followed_to_the_end_of_its_container(cluster: Access) -> None:
    code = "import time\nfor at in range(5): print('line', at); time.sleep(0.1)"
    cluster.run("a", code)
    (pod,) = until(lambda: [one for one in cluster.pods("a") if one.status.phase != "Pending"])
    assert cluster.log(pod.metadata.name, follow=True).splitlines() == [f"line {at}" for at in range(5)]
    assert cluster.log(pod.metadata.name, tail_lines=2).splitlines() == ["line 3", "line 4"]


def test_a_log_goes_with_its_pod(cluster: Access) -> None:
    cluster.run("a", "print('said')")
    cluster.ended("a")
    (pod,) = cluster.pods("a")
    assert cluster.log(pod.metadata.name) == "said\n"
    cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace)
    until(lambda: not cluster.pods("a"))
    with pytest.raises(ApiException) as caught:
        cluster.log(pod.metadata.name)
    assert caught.value.status == 404


def test_a_pod_that_fits_no_node_waits_and_says_why(cluster: Access) -> None:
    cluster.run("a", SLEEP, gpus=9999)
    (pod,) = until(lambda: [one for one in cluster.pods("a") if one.status.conditions])
    (scheduled,) = pod.status.conditions
    assert (scheduled.type, scheduled.status, scheduled.reason) == ("PodScheduled", "False", "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in scheduled.message
    assert ("FailedScheduling", scheduled.message) in until(lambda: cluster.events(pod.metadata.name))
    assert cluster.log(pod.metadata.name) == ""


def test_gpus_are_given_once(cluster: Access) -> None:
    machines = cluster.machines
    machines.add_node("n2", gpus=1)
    cluster.run("a", SLEEP, gpus=8)
    cluster.run("b", SLEEP, gpus=1)
    nodes = {cluster.running(name)[0].spec.node_name for name in ("a", "b")}
    assert nodes == {"n1", "n2"}
    cluster.run("c", SLEEP, gpus=1)
    until(lambda: [one for one in cluster.pods("c") if one.status.conditions])
    cluster.batch.delete_namespaced_job("b", cluster.namespace, propagation_policy="Background")
    assert cluster.running("c")[0].spec.node_name == "n2"


def test_an_image_that_cannot_be_pulled_leaves_its_pod_waiting(cluster: Access) -> None:
    cluster.run("a", SLEEP, container={"image": "registry.invalid/worker:1"})
    seen = set()

    def backed_off() -> bool:
        for pod in cluster.pods("a"):
            for status in pod.status.container_statuses or []:
                seen.add(status.state.waiting.reason)
        return "ImagePullBackOff" in seen

    until(backed_off)
    assert seen <= {"ContainerCreating", "ErrImagePull", "ImagePullBackOff"}
    assert "Failed" in [reason for reason, _ in cluster.events(cluster.pods("a")[0].metadata.name)]
    assert cluster.pods("a")[0].status.phase == "Pending"


def test_a_command_that_is_not_there_fails_its_pod(cluster: Access) -> None:
    cluster.run("a", "", container={"command": ["/no/such/program"]})
    cluster.ended("a")
    assert (_ended(cluster, "a").exit_code, _ended(cluster, "a").reason) == (128, "StartError")


def test_a_container_that_takes_more_memory_than_its_limit_is_killed_for_it(cluster: Access) -> None:
    code = "import time; taken = bytearray(200_000_000); time.sleep(600)"
    cluster.run("a", code, container={"resources": {"limits": {"memory": "128Mi"}}})
    cluster.ended("a")
    assert (_ended(cluster, "a").exit_code, _ended(cluster, "a").reason) == (137, "OOMKilled")


def test_a_node_that_runs_out_of_memory_kills_a_container(cluster: Access) -> None:
    machines = cluster.machines
    cluster.run("a", SLEEP)
    machines.kill_processes(cluster.namespace, cluster.running("a")[0].metadata.name, out_of_memory=True)
    cluster.ended("a")
    assert (_ended(cluster, "a").exit_code, _ended(cluster, "a").reason) == (137, "OOMKilled")


@pytest.mark.parametrize(("code", "exit_code"), [(POLITE, 75), (SLEEP, 143), (STUBBORN, 137)])
def test_a_stopped_pod_has_its_grace_and_no_more(cluster: Access, code: str, exit_code: int) -> None:
    never = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [75, 137, 143]}}]}
    cluster.run("a", code, podFailurePolicy=never, pod={"terminationGracePeriodSeconds": cluster.long_s})
    (pod,) = cluster.running("a")
    until(lambda: "up" in cluster.log(pod.metadata.name))
    cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace)
    if code == STUBBORN:
        cluster.after(cluster.long_s)
    cluster.ended("a")
    assert f"exit code {exit_code} " in cluster.job("a").status.conditions[-1].message


def test_a_container_that_ends_well_when_stopped_completes_its_index(cluster: Access) -> None:
    code = f"import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(0)); {SLEEP}"
    cluster.run("a", code, podReplacementPolicy="Failed")
    (pod,) = cluster.running("a")
    until(lambda: "up" in cluster.log(pod.metadata.name))
    cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace)
    assert cluster.ended("a")[-1][0] == "Complete"


def test_the_end_of_a_log_becomes_the_message_of_an_error(cluster: Access) -> None:
    code = "import sys; print('what went wrong'); sys.exit(2)"
    cluster.run("a", code, container={"terminationMessagePolicy": "FallbackToLogsOnError"})
    cluster.ended("a")
    assert _ended(cluster, "a").message == "what went wrong\n"


def test_init_containers_come_first_and_share_volumes(cluster: Access) -> None:
    share = {"volumeMounts": [{"name": "cache", "mountPath": "/cache"}], "image": cluster.image, "name": "fetch"}
    fetch = {**share, "command": ["sh", "-c", "echo model > /cache/base"], "resources": {}}
    pod = {"initContainers": [fetch], "volumes": [{"name": "cache", "emptyDir": {}}]}
    env = [{"name": "FT_CACHE", "value": "/cache"}, {"name": "BASE", "value": "$(FT_CACHE)/base"}]
    container = {"env": env, "volumeMounts": share["volumeMounts"]}
    cluster.run("a", "import os; print(open(os.environ['BASE']).read())", pod=pod, container=container)
    assert cluster.ended("a")[-1][0] == "Complete"
    assert cluster.log(cluster.pods("a")[0].metadata.name).strip() == "model"


def test_a_failed_init_container_fails_its_pod_before_the_work_starts(cluster: Access) -> None:
    fetch = {"name": "fetch", "image": cluster.image, "command": ["sh", "-c", "exit 7"], "resources": {}}
    cluster.run("a", "print('ran')", pod={"initContainers": [fetch]})
    assert cluster.ended("a")[-1] == ("Failed", "BackoffLimitExceeded")
    (pod,) = cluster.pods("a")
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 7
    assert pod.status.container_statuses[0].state.waiting.reason == "PodInitializing"
    assert pod.status.container_statuses[0].state.terminated is None


def test_variables_come_from_fields_and_secrets_and_not_from_who_runs_the_cluster(
    cluster: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THE_TEST", "1")
    cluster.core.create_namespaced_secret(
        cluster.namespace, {"metadata": {"name": "s"}, "data": {"KEY": b64encode(b"hidden").decode()}}
    )
    env = [{"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    container = {"env": env, "envFrom": [{"secretRef": {"name": "s"}}]}
    code = "import os; print(os.environ['NODE'], os.environ['KEY'], os.environ.get('OF_THE_TEST'))"
    cluster.run("a", code, container=container)
    cluster.ended("a")
    (pod,) = cluster.pods("a")
    assert cluster.log(pod.metadata.name).split() == [pod.spec.node_name, "hidden", "None"]


def test_ranks_meet_by_name_through_a_headless_service(cluster: Access) -> None:
    code = """
import os, socket, time
index, master = int(os.environ["JOB_COMPLETION_INDEX"]), os.environ["MASTER"]
if index == 0:
    server = socket.create_server(("", 29517)); peer, _ = server.accept(); print("got", peer.recv(99).decode())
else:
    for _ in range(200):
        try:
            socket.create_connection((master, 29517), 2).sendall(b"hello"); break
        except OSError:
            time.sleep(0.1)
"""
    env = [{"name": "MASTER", "value": f"a-0.a.{cluster.namespace}.svc"}]
    cluster.run("a", code, completions=2, parallelism=2, pod={"subdomain": "a"}, container={"env": env})
    spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {"job-name": "a"}}
    cluster.core.create_namespaced_service(cluster.namespace, {"metadata": {"name": "a"}, "spec": spec})
    assert cluster.ended("a")[-1][0] == "Complete"
    first = next(pod for pod in cluster.pods("a") if pod.spec.hostname == "a-0")
    assert cluster.log(first.metadata.name).strip() == "got hello"


def test_pods_of_a_lost_node_read_running_until_their_node_is_removed(cluster: Access) -> None:
    machines = cluster.machines
    cluster.run("a", SLEEP, podFailurePolicy={"rules": [{"action": "FailJob", "onPodConditions": [_TARGET]}]})
    (pod,) = cluster.running("a")
    machines.lose_node("n1")
    (lost,) = until(lambda: [one for one in cluster.pods("a") if one.metadata.deletion_timestamp])
    assert (lost.status.phase, _disruption(lost)) == ("Running", "DeletionByTaintManager")
    assert cluster.job("a").status.conditions is None
    with pytest.raises(ApiException) as caught:
        cluster.log(pod.metadata.name)
    assert caught.value.status == 500
    machines.remove_node("n1")
    assert cluster.ended("a")[-1] == ("Failed", "PodFailurePolicy")
    until(lambda: not cluster.pods("a"))


def test_a_spot_node_ends_its_pods_and_says_so(cluster: Access) -> None:
    machines = cluster.machines
    cluster.run("a", POLITE, podFailurePolicy={"rules": [{"action": "FailJob", "onPodConditions": [_TARGET]}]})
    (pod,) = cluster.running("a")
    until(lambda: "up" in cluster.log(pod.metadata.name))
    machines.preempt_spot("n1")
    assert cluster.ended("a")[-1] == ("Failed", "PodFailurePolicy")
    assert "has condition DisruptionTarget" in cluster.job("a").status.conditions[-1].message


def test_an_evicted_pod_names_who_evicted_it(cluster: Access) -> None:
    cluster.run("a", STUBBORN, podReplacementPolicy="Failed", pod={"terminationGracePeriodSeconds": cluster.long_s})
    (pod,) = cluster.running("a")
    until(lambda: "up" in cluster.log(pod.metadata.name))
    cluster.core.create_namespaced_pod_eviction(
        pod.metadata.name, cluster.namespace, {"metadata": {"name": pod.metadata.name}}
    )
    (evicted,) = [one for one in cluster.pods("a") if one.metadata.deletion_timestamp]
    assert (_disruption(evicted), evicted.status.phase) == ("EvictionByEvictionAPI", "Running")


def test_a_cordoned_node_takes_no_pods(cluster: Access) -> None:
    (node,) = cluster.machines.kubelets
    cluster.core.patch_node(node, {"spec": {"unschedulable": True}})
    cluster.run("a", SLEEP)
    (pod,) = until(lambda: [one for one in cluster.pods("a") if one.status.conditions])
    assert "node(s) were unschedulable" in pod.status.conditions[0].message
    cluster.core.patch_node(node, {"spec": {"unschedulable": None}})
    cluster.running("a")


_TARGET = {"type": "DisruptionTarget", "status": "True"}
