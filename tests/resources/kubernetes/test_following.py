"""What a waiting process makes of a Job's news, with an API that says what a test wants."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from kubernetes.client import ApiClient

from ft_resources.attempts import Attempt
from ft_resources.canonical import canonical_json
from ft_resources.kubernetes.api import Api, ApiRefusal
from ft_resources.kubernetes.causes import Cause
from ft_resources.kubernetes.followed import FollowedJob
from ft_resources.kubernetes.watched import WatchedNamespace
from ft_resources.store import Store
from tests.resources.kubernetes.connections import Answer, client_over
from tests.resources.kubernetes.specs import settings_of, spec_of
from tests.resources.kubernetes.streams import Told, job_at

NOW = 1_800_000_000.0


class Still:
    """A watch that has heard of this Job."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.job = self.last = job

    def close(self) -> None:
        return


def followed_by(attempt: Attempt, api: Told, now: list[float]) -> FollowedJob:
    """By a watch that is over."""
    found = FollowedJob(
        api=api,  # type: ignore[arg-type]
        attempt=attempt,
        watched=WatchedNamespace(api, "ft-acme"),  # type: ignore[arg-type]
        settings=settings_of(queue="ft"),
        clock=lambda: now[0],
        look_every_s=0.0,
        launched=True,
    )
    found.watch.close()
    return found


def pod(name: str, *, phase: str, started: float, gone_by: float | None = None) -> dict[str, Any]:
    def at(moment: float) -> str:
        return datetime.fromtimestamp(moment, UTC).isoformat()

    meta = {"name": name, "uid": name, "creationTimestamp": at(started)}
    deleted = {} if gone_by is None else {"deletionTimestamp": at(gone_by)}
    return {"metadata": meta | deleted, "spec": {"nodeName": "n"}, "status": {"phase": phase, "startTime": at(started)}}


def test_a_job_that_kueue_puts_back_before_its_worker_came_up_waits_on_and_owes_nothing(store: Store) -> None:
    """Its first pod was seen last while it ended; it is gone, and another one runs hours later."""
    api, now = Told(lambda _: iter(())), [NOW]
    followed = followed_by(Attempt(store, spec_of().address, 1), api, now)

    def hears(job: dict[str, Any]) -> Any:
        followed.watch = Still(job)  # type: ignore[assignment]
        return followed.find_ending()

    api.pods = [pod("first", phase="Running", started=NOW - 60.0, gone_by=NOW + 5.0)]
    assert hears(job_at(2, active=1)) is None
    api.pods = []
    assert hears(job_at(3, suspend=True)) is None
    now[0] += 3600.0
    assert hears(job_at(3, suspend=True)) is None, "it was taken for lost with its node"
    api.pods = [pod("second", phase="Pending", started=now[0])]
    assert hears(job_at(4, active=1)) is None
    assert [each["metadata"]["name"] for each in followed.last_pods] == ["second"]


def test_pods_that_were_not_ready_in_time_are_told_from_a_preemption_by_their_workload(store: Store) -> None:
    """The first of two ranks had begun when Kueue's time for all pods was over."""
    api = Told(lambda _: iter(()))
    evicted = {"type": "Evicted", "status": "True", "reason": "PodsReadyTimeout", "message": "Exceeded the timeout"}
    api.workloads = [{"spec": {}, "status": {"conditions": [evicted]}}]
    attempt = Attempt(store, spec_of().address, 1)
    attempt.store.put(f"{attempt.path}/progress.json", canonical_json({"phase": "starting", "at": NOW}))
    followed = followed_by(attempt, api, [NOW])
    followed.watch = Still(job_at(2, suspend=True))  # type: ignore[assignment]
    ending = followed.find_ending()
    assert ending is not None
    assert (ending.cause, ending.refund) == (Cause.PODS_NOT_READY, "full")


def answers(after: str, status: int = 429, reason: str = "") -> ApiClient:
    """A connection that refuses once, and then answers an empty object."""
    left: list[Answer] = [(status, {"Retry-After": after}, json.dumps({"reason": reason}).encode()), (200, {}, b"{}")]
    return client_over(lambda *_: left.pop(0))


@pytest.mark.parametrize("after", ["86400", "inf", "nan", "-5", "Wed, 21 Oct 2026 07:28:00 GMT"])
def test_a_server_cannot_put_a_process_to_sleep_for_a_day(after: str) -> None:
    slept: list[float] = []
    api = Api(client=answers(after), sleep=slept.append)
    assert api.get("/x") == {}
    assert len(slept) == 1
    assert 0.0 <= slept[0] <= 10.0


def test_a_conflict_over_a_quota_is_no_answer_about_the_name() -> None:
    """Kubernetes answers 409 "Conflict" to a POST where two were counted at once, and "AlreadyExists" for a name."""
    slept: list[float] = []
    assert Api(client=answers("0", 409, "Conflict"), sleep=slept.append).create("/x", {}) == {}
    assert len(slept) == 1
    for ask in (
        lambda api: api.create("/x", {}),
        lambda api: api.patch("/x", {}),
    ):
        api = Api(client=answers("0", 409, "AlreadyExists"), sleep=slept.append)
        with pytest.raises(ApiRefusal, match="AlreadyExists"):
            ask(api)
    assert len(slept) == 1
