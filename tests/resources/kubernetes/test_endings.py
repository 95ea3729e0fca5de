"""What the API's objects say of an end, in the shapes that a real API server was seen to give them."""

from datetime import datetime
from typing import get_args

import pytest

from ft_resources.kubernetes.causes import MEANINGS, Cause
from ft_resources.kubernetes.endings import PodEnding, Sight, asks_last_beat, ending_of
from ft_resources.outcomes import EXIT_CODES, Outcome, Refund

NOW = 1_800_000_000.0
SOON, LONG_AGO = "2027-01-15T07:59:55Z", "2027-01-15T06:00:00Z"
POLICY = "failed with exit code {} matching FailJob rule at index 1"


def job(*conditions: tuple[str, str, str], suspend: bool = False, created: str = SOON, **status: object) -> dict:
    found = [{"type": kind, "status": "True", "reason": reason, "message": text} for kind, reason, text in conditions]
    return {
        "metadata": {"creationTimestamp": created},
        "spec": {"suspend": suspend},
        "status": {"conditions": found, **status},
    }


def failed(reason: str, message: str = "") -> dict:
    return job(("FailureTarget", reason, message), ("Failed", reason, message))


def pod(
    *, phase: str = "Failed", disrupted: str = "", code: int | None = None, why: str = "Error", **more: object
) -> dict:
    conditions = [{"type": "DisruptionTarget", "status": "True", "reason": disrupted}] if disrupted else []
    ended = {"state": {"terminated": {"exitCode": code, "reason": why}}}
    status = {"phase": phase, "conditions": conditions, "containerStatuses": [] if code is None else [ended]}
    meta = more.pop("metadata", {})
    return {"metadata": meta, "status": {**status, **more}}


def stuck(reason: str, since: str = LONG_AGO) -> dict:
    state = {"state": {"waiting": {"reason": reason, "message": "no such host"}}}
    return {"metadata": {}, "status": {"phase": "Pending", "startTime": since, "containerStatuses": [state]}}


def deleted(*, phase: str, node: str) -> dict:
    """A pod that should have been gone long ago."""
    spec = {"nodeName": node} if node else {}
    return {**pod(phase=phase, metadata={"deletionTimestamp": LONG_AGO}), "spec": spec}


def end(found: dict | None, *pods: dict, **facts: object) -> PodEnding:
    """How it ended. Raises AssertionError where it has not."""
    ending = ending_of(sight(found, *pods, **facts))
    assert ending is not None
    return ending


def sight(found: dict | None, *pods: dict, **facts: object) -> Sight:
    defaults = {"begun": True, "spot": False, "now": NOW, "queue_timeout_s": 600.0, "image_pull_timeout_s": 300.0}
    return Sight(job=found, pods=pods, **{**defaults, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("evicted", "spot", "cause"),
    [
        ("", False, Cause.QUEUE_PREEMPTION),
        ("Preempted", False, Cause.QUEUE_PREEMPTION),
        ("PodsReadyTimeout", True, Cause.PODS_NOT_READY),
        ("NodeFailures", False, Cause.NODE_LOST),
        ("NodeFailures", True, Cause.SPOT_RECLAIMED),
    ],
)
def test_kueue_says_why_it_took_a_place(evicted: str, spot: bool, cause: Cause) -> None:
    ending = end(job(suspend=True), evicted=evicted, spot=spot)
    assert (ending.cause, ending.outcome, ending.refund) == (cause, Outcome.PREEMPTED, "full")


@pytest.mark.parametrize(
    ("found", "pods", "cause"),
    [
        (failed("DeadlineExceeded"), [pod(code=75)], Cause.RUN_TIMEOUT),
        (failed("PodFailurePolicy", "Pod a/b has condition DisruptionTarget matching"), [], Cause.DISRUPTED),
        (failed("PodFailurePolicy"), [pod(disrupted="EvictionByEvictionAPI", code=75)], Cause.DRAINED),
        (failed("PodFailurePolicy"), [pod(disrupted="PreemptionByScheduler")], Cause.SCHEDULER_PREEMPTION),
        (failed("PodFailurePolicy"), [pod(disrupted="DeletionByTaintManager")], Cause.NODE_LOST),
        (failed("PodFailurePolicy"), [pod(disrupted="DeletionByPodGC")], Cause.NODE_LOST),
        (failed("PodFailurePolicy"), [pod(disrupted="TerminationByKubelet")], Cause.NODE_SHUTDOWN),
        (failed("PodFailurePolicy"), [pod(disrupted="TerminationByKubelet", reason="Evicted")], Cause.EVICTED),
        (
            failed("PodFailurePolicy"),
            [pod(reason="Evicted", message='Usage of EmptyDir volume "scratch" exceeds the limit "1Gi".')],
            Cause.DISK_LIMIT,
        ),
        (failed("PodFailurePolicy", POLICY.format(137)), [pod(code=137, why="OOMKilled")], Cause.OOM_KILLED),
        (failed("PodFailurePolicy", POLICY.format(137)), [pod(code=137)], Cause.KILLED),
        (failed("PodFailurePolicy", POLICY.format(75)), [], Cause.STOPPED),
        (failed("PodFailurePolicy", POLICY.format(78)), [], Cause.WORKER),
        (failed("BackoffLimitExceeded"), [pod(code=65)], Cause.WORKER),
        (failed("BackoffLimitExceeded"), [], Cause.STOPPED),
        (failed("PodFailurePolicy", POLICY.format(128)), [pod(code=128, why="StartError")], Cause.NOT_STARTED),
        (failed("BackoffLimitExceeded"), [pod(code=128, why="StartError")], Cause.NOT_STARTED),
        (failed("PodFailurePolicy", POLICY.format(127)), [pod(code=127, why="ContainerCannotRun")], Cause.NOT_STARTED),
        (failed("PodFailurePolicy", POLICY.format(128)), [], Cause.NOT_STARTED),
        (job(("SuccessCriteriaMet", "", ""), ("Complete", "", "")), [], Cause.WORKER),
        (None, [], Cause.DELETED),
        (job(suspend=True), [], Cause.QUEUE_PREEMPTION),
        (job(active=1), [stuck("ImagePullBackOff")], Cause.IMAGE_PULL),
        (job(active=1), [stuck("CreateContainerConfigError")], Cause.NOT_STARTED),
        (job(active=1), [deleted(phase="Running", node="n1")], Cause.NODE_LOST),
        (job(active=1), [deleted(phase="Pending", node="")], Cause.STOPPED),
    ],
)
def test_every_end_is_told_apart(found: dict | None, pods: list[dict], cause: Cause) -> None:
    assert end(found, *pods).cause is cause


@pytest.mark.parametrize(
    ("found", "pods", "facts"),
    [
        (job(active=1, ready=1), [], {}),
        (job(("FailureTarget", "PodFailurePolicy", ""), terminating=1), [], {}),
        (job(("SuccessCriteriaMet", "", "")), [], {}),
        (job(suspend=True), [], {"begun": False}),
        (job(suspend=True, terminating=1), [], {}),
        (job(active=1), [stuck("ImagePullBackOff", SOON)], {}),
        (job(active=1), [stuck("ContainerCreating")], {}),
        (job(active=1), [pod(phase="Running", metadata={"deletionTimestamp": SOON})], {}),
        (job(active=1, ready=1, created=LONG_AGO), [], {"begun": False}),
        (job(active=1, created=LONG_AGO), [], {"begun": True}),
    ],
)
def test_what_waits_runs_or_is_on_its_way_out_has_not_ended(found: dict, pods: list[dict], facts: dict) -> None:
    assert ending_of(sight(found, *pods, **facts)) is None


def test_waiting_too_long_is_told_from_running() -> None:
    waiting = end(job(suspend=True, created=LONG_AGO), begun=False)
    assert (waiting.cause, waiting.outcome, waiting.refund) == (Cause.QUEUE_TIMEOUT, Outcome.TIMED_OUT, "full")


@pytest.mark.parametrize("disrupted", ["TerminationByKubelet", "DeletionByTaintManager", "DeletionByPodGC"])
def test_a_lost_spot_node_is_one_that_was_taken_away(disrupted: str) -> None:
    assert end(failed("PodFailurePolicy"), pod(disrupted=disrupted), spot=True).cause is Cause.SPOT_RECLAIMED


@pytest.mark.parametrize("outcome", [each for each in Outcome if each not in (Outcome.DONE, Outcome.PREEMPTED)])
def test_a_workers_own_code_is_taken_at_its_word(outcome: Outcome) -> None:
    assert end(failed("PodFailurePolicy", POLICY.format(EXIT_CODES[outcome]))).outcome is outcome


@pytest.mark.parametrize(
    ("silent_s", "spot", "cause"),
    [
        (60.0, False, Cause.NODE_LOST),
        (1.0, False, Cause.DISRUPTED),
        (None, False, Cause.DISRUPTED),
        (60.0, True, Cause.SPOT_RECLAIMED),
    ],
)
def test_a_disrupted_worker_that_had_fallen_silent_was_on_a_lost_node(
    silent_s: float | None, spot: bool, cause: Cause
) -> None:
    found = failed("PodFailurePolicy", "Pod a/b has condition DisruptionTarget matching FailJob rule at index 0")
    found["status"]["conditions"][1]["lastTransitionTime"] = SOON
    last_beat = None if silent_s is None else datetime.fromisoformat(SOON).timestamp() - silent_s
    assert asks_last_beat(sight(found, spot=spot, last_beat=last_beat))
    assert end(found, spot=spot, last_beat=last_beat).cause is cause
    assert not asks_last_beat(sight(found, pod(disrupted="EvictionByEvictionAPI"), spot=spot, last_beat=last_beat))


def test_a_recipes_own_image_is_its_authors_to_pay() -> None:
    ours, theirs = (end(job(active=1), stuck("ErrImagePull"), own_image=own) for own in (False, True))
    assert (ours.outcome, ours.refund) == (Outcome.PLATFORM_ERROR, "full")
    assert (theirs.outcome, theirs.refund) == (Outcome.USER_ERROR, "none")


RUNC = "failed to create containerd task: OCI runtime create failed: runc create failed: unable to start container "


@pytest.mark.parametrize(
    ("said", "own_image", "outcome"),
    [
        (f'{RUNC}process: exec: "python": executable file not found in $PATH', False, Outcome.PLATFORM_ERROR),
        (f'{RUNC}process: exec: "python": executable file not found in $PATH', True, Outcome.USER_ERROR),
        (f"{RUNC}nvidia-container-cli: initialization error: driver not loaded", True, Outcome.PLATFORM_ERROR),
    ],
)
def test_a_container_that_cannot_start_is_told_in_the_runtimes_words(
    said: str, own_image: bool, outcome: Outcome
) -> None:
    refused = pod(code=128, why="StartError")
    refused["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = said
    ending = end(failed("PodFailurePolicy", POLICY.format(128)), refused, begun=False, own_image=own_image)
    assert (ending.outcome, ending.exit_code) == (outcome, 128)
    assert f"could not be started (StartError: {said})" in ending.what


def test_every_cause_has_a_meaning_with_words_and_who_pays() -> None:
    assert set(MEANINGS) == set(Cause) - {Cause.WORKER}
    for meaning in MEANINGS.values():
        assert meaning.what
        assert meaning.remedy
        assert meaning.refund in get_args(Refund)
