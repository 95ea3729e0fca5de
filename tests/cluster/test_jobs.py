"""Jobs: indexes, endings in pairs of conditions, suspension, and failures told apart by the pod failure policy."""

import pytest

from tests.cluster.fixtures import Access, until

SLEEP = "import time; time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
DISRUPTED = {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
BAD_EXIT = {"action": "FailJob", "onExitCodes": {"operator": "NotIn", "values": [0]}}
COMPLETE = [("SuccessCriteriaMet", "CompletionsReached"), ("Complete", "CompletionsReached")]


def test_each_index_runs_once_and_knows_itself(cluster: Access) -> None:
    code = "import os; print(os.environ['JOB_COMPLETION_INDEX'], os.environ['HOSTNAME'])"
    cluster.run("a", code, completions=3, parallelism=2)
    assert cluster.ended("a") == COMPLETE
    status = cluster.job("a").status
    assert (status.succeeded, status.failed, status.active) == (3, None, None)
    assert status.completed_indexes == "0-2"
    assert status.completion_time
    hosts = sorted(pod.spec.hostname for pod in cluster.pods("a"))
    assert hosts == ["a-0", "a-1", "a-2"]
    assert all(not pod.metadata.finalizers for pod in cluster.pods("a"))


def test_a_failed_pod_beyond_the_limit_fails_the_job_and_ends_the_others(cluster: Access) -> None:
    code = "import os, sys, time; sys.exit(3) if os.environ['JOB_COMPLETION_INDEX'] == '1' else time.sleep(600)"
    cluster.run("a", code, completions=2, parallelism=2)
    assert cluster.ended("a") == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]
    assert cluster.job("a").status.failed == 2
    (left,) = cluster.pods("a")
    assert left.status.container_statuses[0].state.terminated.exit_code == 3


def test_a_pod_is_tried_again_within_the_limit(cluster: Access) -> None:
    # Nothing of a node is used, as the second pod may be on another one.
    code = "import os, sys, time; sys.exit(0) if 'AGAIN' in os.environ else time.sleep(600)"
    again = {"secretKeyRef": {"name": "s", "key": "AGAIN", "optional": True}}
    cluster.run("a", code, backoffLimit=1, container={"env": [{"name": "AGAIN", "valueFrom": again}]})
    (pod,) = cluster.running("a")
    cluster.core.create_namespaced_secret(cluster.namespace, {"metadata": {"name": "s"}, "data": {"AGAIN": "MQ=="}})
    cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace)
    assert cluster.ended("a") == COMPLETE
    assert (cluster.job("a").status.failed, cluster.job("a").status.succeeded) == (1, 1)


def test_the_rule_that_failed_a_job_is_in_its_condition(cluster: Access) -> None:
    cluster.run("a", "import sys; sys.exit(42)", backoffLimit=3, podFailurePolicy={"rules": [DISRUPTED, BAD_EXIT]})
    assert cluster.ended("a") == [("FailureTarget", "PodFailurePolicy"), ("Failed", "PodFailurePolicy")]
    said = cluster.job("a").status.conditions[-1].message
    pod = cluster.pods("a")[0].metadata.name
    where = f"Container t for pod {cluster.namespace}/{pod}"
    assert said == f"{where} failed with exit code 42 matching FailJob rule at index 1"


def test_an_ignored_disruption_is_not_counted(cluster: Access) -> None:
    ignored = {**DISRUPTED, "action": "Ignore"}
    cluster.run("a", SLEEP, podFailurePolicy={"rules": [ignored, BAD_EXIT]})
    (pod,) = cluster.running("a")
    _evict(cluster, pod.metadata.name)
    again = until(lambda: [one for one in cluster.running("a") if one.metadata.name != pod.metadata.name])
    assert again[0].metadata.labels["batch.kubernetes.io/job-completion-index"] == "0"
    assert cluster.job("a").status.failed is None


def test_an_eviction_is_told_by_a_condition_of_the_pod_and_of_the_job(cluster: Access) -> None:
    cluster.run("a", SLEEP, podFailurePolicy={"rules": [DISRUPTED, BAD_EXIT]})
    (pod,) = cluster.running("a")
    _evict(cluster, pod.metadata.name)
    assert cluster.ended("a") == [("FailureTarget", "PodFailurePolicy"), ("Failed", "PodFailurePolicy")]
    name = f"{cluster.namespace}/{pod.metadata.name}"
    said = cluster.job("a").status.conditions[-1].message
    assert said == f"Pod {name} has condition DisruptionTarget matching FailJob rule at index 0"


def test_a_deadline_ends_pods_before_the_job_has_failed(cluster: Access) -> None:
    cluster.run("a", SLEEP, activeDeadlineSeconds=cluster.long_s)
    cluster.running("a")
    cluster.after(cluster.long_s)
    assert cluster.ended("a") == [("FailureTarget", "DeadlineExceeded"), ("Failed", "DeadlineExceeded")]
    assert cluster.pods("a") == []
    assert [reason for reason, _ in cluster.events("a")] == ["SuccessfulCreate", "SuccessfulDelete", "DeadlineExceeded"]


def test_a_finished_job_goes_after_its_time(cluster: Access) -> None:
    cluster.run("a", "pass", ttlSecondsAfterFinished=0)
    until(lambda: not cluster.batch.list_namespaced_job(cluster.namespace).items)
    until(lambda: not cluster.pods("a"))


def test_suspending_ends_pods_without_counting_them_and_resuming_starts_anew(cluster: Access) -> None:
    cluster.run("a", SLEEP)
    (first,) = cluster.running("a")
    started = cluster.job("a").status.start_time
    _suspend(cluster, True)
    until(lambda: not cluster.pods("a"))
    job = until(lambda: (job := cluster.job("a")).status.conditions and job)
    assert [(one.type, one.status, one.reason) for one in job.status.conditions] == [
        ("Suspended", "True", "JobSuspended")
    ]
    assert (job.status.active, job.status.failed) == (None, None)
    _suspend(cluster, False)
    (second,) = cluster.running("a")
    assert second.metadata.uid != first.metadata.uid
    job = cluster.job("a")
    assert [(one.type, one.status, one.reason) for one in job.status.conditions] == [
        ("Suspended", "False", "JobResumed")
    ]
    assert (job.status.failed, job.status.start_time >= started) == (None, True)


def test_a_pod_deleted_by_hand_fails_its_job_without_a_disruption(cluster: Access) -> None:
    cluster.run("a", SLEEP, podFailurePolicy={"rules": [DISRUPTED]})
    (pod,) = cluster.running("a")
    cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace)
    assert cluster.ended("a") == [("FailureTarget", "BackoffLimitExceeded"), ("Failed", "BackoffLimitExceeded")]


def test_with_policy_failed_a_pod_counts_only_when_it_has_ended(cluster: Access) -> None:
    cluster.run(
        "a", STUBBORN, podFailurePolicy={"rules": [BAD_EXIT]}, pod={"terminationGracePeriodSeconds": cluster.long_s}
    )
    (pod,) = cluster.running("a")
    until(lambda: "up" in cluster.log(pod.metadata.name))
    cluster.core.delete_namespaced_pod(pod.metadata.name, cluster.namespace)
    status = until(lambda: (status := cluster.job("a").status).terminating and status)
    assert (status.terminating, status.failed, status.conditions) == (1, None, None)
    cluster.after(cluster.long_s)
    assert cluster.ended("a")[-1] == ("Failed", "PodFailurePolicy")
    assert "exit code 137" in cluster.job("a").status.conditions[-1].message


@pytest.mark.parametrize("account", ["nobody"])
def test_without_its_service_account_a_pod_is_not_made_and_the_job_says_so(cluster: Access, account: str) -> None:
    cluster.run("a", SLEEP, pod={"serviceAccountName": account})
    reason, text = until(lambda: cluster.events("a"))[0]
    assert reason == "FailedCreate"
    assert f'serviceaccount "{account}" not found' in text
    body = {"metadata": {"name": account}}
    cluster.core.create_namespaced_service_account(cluster.namespace, body)
    cluster.running("a")


def _suspend(cluster: Access, value: bool) -> None:
    cluster.batch.patch_namespaced_job("a", cluster.namespace, {"spec": {"suspend": value}})


def _evict(cluster: Access, pod: str) -> None:
    body = {"metadata": {"name": pod}}
    cluster.core.create_namespaced_pod_eviction(pod, cluster.namespace, body)
