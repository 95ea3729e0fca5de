"""The test cluster against a real one: the same work gives the same conditions, events and fields.

What a real 1.36 API server was recorded to say is distilled below, so that it is compared wherever the tests run. The
recordings themselves are in a folder ``kubernetes`` beside FT_REAL_DATA; where they are, the distillate is compared
with them as well.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.fixtures import Access, until

RECORDED = Path(os.environ.get("FT_REAL_DATA", "/nowhere")).parent / "kubernetes"
SLEEP = "import time; time.sleep(60)"
POLITE = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(0)); print('up', flush=True); time.sleep(60)"

SPEC = {"parallelism", "completions", "backoffLimit", "selector", "manualSelector", "template", "completionMode"}
SPEC |= {"suspend", "podReplacementPolicy"}
POD_FIELDS = {"containers", "restartPolicy", "terminationGracePeriodSeconds", "dnsPolicy", "serviceAccountName"}
POD_FIELDS |= {"serviceAccount", "securityContext", "hostname", "schedulerName", "tolerations", "priority", "nodeName"}
POD_FIELDS |= {"enableServiceLinks", "preemptionPolicy"}
LABELS = {"app", "controller-uid", "job-name", "batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name"}
LABELS |= {"batch.kubernetes.io/job-completion-index"}
POD_CONDITIONS = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]

JOBS: dict[str, list[Any]] = {
    # A Job's status from event to event: conditions, pods active, succeeded, failed, terminating.
    "suspended, resumed, completed": [
        ([], 0, 0, 0, None),
        (["Suspended"], 0, 0, 0, 0),
        (["!Suspended"], 2, 0, 0, 0),
        (["!Suspended", "SuccessCriteriaMet"], 0, 2, 0, 0),
        (["!Suspended", "SuccessCriteriaMet", "Complete"], 0, 2, 0, 0),
    ],
    "failed by a rule": [
        ([], 0, 0, 0, None),
        ([], 2, 0, 0, 0),
        (["FailureTarget"], 0, 1, 0, 0),
        (["FailureTarget", "Failed"], 0, 1, 1, 0),
    ],
    "past its deadline": [
        ([], 0, 0, 0, None),
        ([], 1, 0, 0, 0),
        (["FailureTarget"], 0, 0, 0, 1),
        (["FailureTarget"], 0, 0, 1, 1),
        (["FailureTarget"], 0, 0, 1, 0),
        (["FailureTarget", "Failed"], 0, 0, 1, 0),
    ],
}
PODS: dict[str, list[Any]] = {
    # A pod from event to event: phase, finalizer, grace it is deleted with, its container's state.
    "completed": [
        ("Pending", True, None, None),
        ("Pending", True, None, "waiting"),
        ("Running", True, None, "running"),
        ("Running", True, None, "terminated"),
        ("Succeeded", True, None, "terminated"),
        ("Succeeded", False, None, "terminated"),
    ],
    "deleted with its job": [
        ("Pending", True, None, None),
        ("Pending", True, None, "waiting"),
        ("Running", True, None, "running"),
        ("Running", False, None, "running"),
        ("Running", False, 5, "running"),
        ("Running", False, 5, "terminated"),
        ("Succeeded", False, 5, "terminated"),
        ("Succeeded", False, 0, "terminated"),
    ],
    "unschedulable, deleted in the foreground": [
        ("Pending", True, None, None),
        ("Pending", False, None, None),
        ("Pending", False, 0, None),
    ],
}
EVENTS = {
    "suspended, resumed, completed": ["Suspended", "SuccessfulCreate", "SuccessfulCreate", "Resumed", "Completed"],
    "failed by a rule": ["SuccessfulCreate", "SuccessfulCreate", "PodFailurePolicy"],
    "past its deadline": ["SuccessfulCreate", "SuccessfulDelete", "DeadlineExceeded"],
}
NAMES = {
    "suspended, resumed, completed": "w1",
    "failed by a rule": "w2",
    "past its deadline": "w4",
    "completed": "w2-0",
    "deleted with its job": "w3-0",
    "unschedulable, deleted in the foreground": "w6-0",
}


def _job_step(job: dict[str, Any]) -> Any:
    status = job["status"]
    conditions = [("" if one["status"] == "True" else "!") + one["type"] for one in status.get("conditions", [])]
    return (conditions, *(status.get(name, 0) for name in ("active", "succeeded", "failed")), status.get("terminating"))


def _pod_step(pod: dict[str, Any]) -> Any:
    states = [next(iter(one["state"])) for one in pod["status"].get("containerStatuses", [])]
    meta = pod["metadata"]
    grace = meta.get("deletionGracePeriodSeconds")
    return pod["status"]["phase"], "finalizers" in meta, grace, states[0] if states else None


def _steps(events: list[dict[str, Any]], step: Any) -> list[Any]:
    """What an object went through, without repetitions."""
    steps = [step(event["object"]) for event in events]
    return [one for at, one in enumerate(steps) if at == 0 or one != steps[at - 1]]


def _watched(cluster: Access, what: str, name: str) -> list[dict[str, Any]]:
    """Every event of objects whose name begins with ``name``, from the server's history."""
    whole = [change for change in cluster.machines.objects.history if change.kind.plural == what]
    found = [change for change in whole if change.object["metadata"]["name"].startswith(name)]
    return [{"type": change.type, "object": change.object} for change in found]


@pytest.fixture(params=sorted(JOBS | PODS))
def case(request: pytest.FixtureRequest, cluster: Access, tmp_path: Path) -> tuple[str, Access]:
    """A piece of recorded work, done again."""
    name, two = request.param, {"completions": 2, "parallelism": 2}
    if name == "suspended, resumed, completed":
        cluster.run("w", "pass", suspend=True, **two)
        until(lambda: cluster.job("w").status.conditions)
        cluster.batch.patch_namespaced_job("w", cluster.namespace, {"spec": {"suspend": False}})
        cluster.ended("w")
    elif name in ("failed by a rule", "completed"):
        rule = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}
        go = tmp_path / "go"
        wait = f"while not os.path.exists({str(go)!r}): time.sleep(0.02)"
        second = "os.environ['JOB_COMPLETION_INDEX'] == '0' and sys.exit()"
        cluster.run("w", f"import os, sys, time; {second}\n{wait}\nsys.exit(42)", podFailurePolicy=rule, **two)
        until(lambda: cluster.job("w").status.succeeded)
        go.touch()
        cluster.ended("w")
    elif name == "past its deadline":
        cluster.run("w", SLEEP, activeDeadlineSeconds=cluster.long_s)
        cluster.running("w")
        cluster.after(cluster.long_s)
        cluster.ended("w")
    elif name == "deleted with its job":
        cluster.run("w", POLITE)
        until(lambda: "up" in cluster.log(cluster.running("w")[0].metadata.name))
        cluster.batch.delete_namespaced_job("w", cluster.namespace, propagation_policy="Background")
        until(lambda: not cluster.pods("w"))
    else:
        cluster.run("w", "pass", gpus=99)
        until(lambda: [one for one in cluster.pods("w") if one.status.conditions])
        cluster.batch.delete_namespaced_job("w", cluster.namespace, propagation_policy="Foreground")
        until(lambda: not cluster.batch.list_namespaced_job(cluster.namespace).items)
    return name, cluster


def test_the_same_work_goes_through_the_same_steps(case: tuple[str, Access]) -> None:
    name, cluster = case
    if name in JOBS:
        steps = _steps(_watched(cluster, "jobs", "w"), _job_step)
        # The real controller looks once a second and sees several ends at once; this one sees each.
        assert steps[0] == JOBS[name][0]
        assert steps[-1] == JOBS[name][-1]
        assert [one[0] for one in _steps_of_conditions(steps)] == [one[0] for one in _steps_of_conditions(JOBS[name])]
        told = [reason for reason, _ in cluster.events("w")]
        assert sorted(told) == sorted(EVENTS[name])
        assert told[-1] == EVENTS[name][-1]
    else:
        first = "w-0"
        assert _steps(_watched(cluster, "pods", first), _pod_step) == PODS[name]
        assert _watched(cluster, "pods", first)[-1]["type"] == ("MODIFIED" if name == "completed" else "DELETED")


def _steps_of_conditions(steps: list[Any]) -> list[Any]:
    return [one for at, one in enumerate(steps) if at == 0 or one[0] != steps[at - 1][0]]


def test_objects_have_the_fields_of_real_ones(cluster: Access) -> None:
    cluster.run("w", "pass", gpus=1)
    cluster.ended("w")
    job, pod = (_watched(cluster, kind, "w")[-1]["object"] for kind in ("jobs", "pods"))
    assert set(job["spec"]) == SPEC
    assert set(pod["spec"]) == POD_FIELDS
    assert set(pod["metadata"]["labels"]) == LABELS
    assert [one["type"] for one in pod["status"]["conditions"]] == POD_CONDITIONS
    assert [one.get("reason") for one in pod["status"]["conditions"]] == [None, *["PodCompleted"] * 3, None]


@pytest.mark.realdata
@pytest.mark.skipif(not RECORDED.is_dir(), reason="no folder kubernetes with recordings beside FT_REAL_DATA")
@pytest.mark.parametrize("name", sorted(JOBS | PODS))
def test_what_was_distilled_is_what_was_recorded(name: str) -> None:
    what, step = ("jobs", _job_step) if name in JOBS else ("pods", _pod_step)
    real = [event for event in _read(what) if event["object"]["metadata"]["name"].startswith(NAMES[name])]
    assert _steps(real, step) == (JOBS | PODS)[name]
    if name in JOBS:
        told = [event["object"] for event in _read("events")]
        about = [one["reason"] for one in told if one["involvedObject"]["name"] == NAMES[name]]
        assert about == EVENTS[name]


@pytest.mark.realdata
@pytest.mark.skipif(not RECORDED.is_dir(), reason="no folder kubernetes with recordings beside FT_REAL_DATA")
def test_the_fields_that_are_compared_are_the_recorded_ones() -> None:
    job = next(event["object"] for event in _read("jobs") if event["object"]["metadata"]["name"] == "w3")
    assert set(job["spec"]) == SPEC
    pod = [event["object"] for event in _read("pods") if event["object"]["metadata"]["name"].startswith("w2-0")][-1]
    # Its recorder mounted a token, and its template named a subdomain.
    assert set(pod["spec"]) - {"volumes", "subdomain"} == POD_FIELDS
    assert set(pod["metadata"]["labels"]) == LABELS
    assert [one["type"] for one in pod["status"]["conditions"]] == POD_CONDITIONS


def _read(what: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / f"{what}.ndjson").read_text().splitlines()]
