"""What an API server refuses, and while it is away: named, waited for, and no evidence of an end."""

from dataclasses import replace

import pytest

from ft_resources.attempts import Attempt
from ft_resources.errors import Misconfigured, NoRoomYet, WorkFailed
from ft_resources.kubernetes.api import Api, ApiRefusal
from ft_resources.kubernetes.creation import create_job
from ft_resources.kubernetes.objects import Object
from ft_resources.launchers.base import LaunchState
from ft_resources.outcomes import Outcome
from tests.cluster.fixtures import until
from tests.resources.launchers.conftest import OnCluster
from tests.resources.small_work import Watcher, in_thread, let_go, outcome

pytestmark = pytest.mark.cluster


def test_a_namespace_that_is_not_there_is_named(on_cluster: OnCluster) -> None:
    request = replace(on_cluster.work(), tenant="nobody")
    with pytest.raises(WorkFailed, match="no namespace ft-nobody"):
        on_cluster.place().execution().run(request, actor="a")


def test_without_rights_a_namespace_that_is_not_there_is_one_that_we_may_not_use(on_cluster: OnCluster) -> None:
    machines = on_cluster.access.machines
    machines.server.tokens["ours"] = {on_cluster.access.namespace}
    request = replace(on_cluster.work(), tenant="nobody")
    access = replace(on_cluster.access, kubeconfig=machines.kubeconfig("ours"))
    with pytest.raises(WorkFailed, match="no namespace ft-nobody, or we have no right in it"):
        replace(on_cluster, access=access).place().execution().run(request, actor="a")


def test_who_may_not_end_a_job_is_told_and_its_worker_stops_all_the_same(on_cluster: OnCluster) -> None:
    machines, request = on_cluster.access.machines, on_cluster.work(held=1)
    thread, got, attempt, _ = on_cluster.start(request)
    machines.server.tokens["ours"] = {"default"}
    access = replace(on_cluster.access, kubeconfig=machines.kubeconfig("ours"))
    with pytest.raises(Misconfigured, match="does not let its Job be ended"):
        replace(on_cluster, access=access).place().execution().cancel(request.address, actor="ann")
    thread.join()
    assert "was cancelled" in str(got[0])
    assert outcome(attempt) is Outcome.CANCELLED


def test_credentials_that_are_not_accepted_are_told_from_missing_rights(on_cluster: OnCluster) -> None:
    stale = replace(on_cluster.access, kubeconfig=on_cluster.access.machines.kubeconfig("expired"))
    with pytest.raises(WorkFailed, match="does not accept our credentials") as refused:
        replace(on_cluster, access=stale).place().execution().run(on_cluster.work(), actor="a")
    assert "namespace" not in refused.value.what


def full(on_cluster: OnCluster) -> str:
    """A quota of no Jobs; its path."""
    path = f"/api/v1/namespaces/{on_cluster.access.namespace}/resourcequotas"
    quota = {"kind": "ResourceQuota", "apiVersion": "v1", "metadata": {"name": "q"}}
    on_cluster.api().create(path, {**quota, "spec": {"hard": {"count/jobs.batch": "0"}}})
    # A real server holds nobody to a quota that it has not counted yet.
    until(lambda: on_cluster.access.made or (on_cluster.api().get(f"{path}/q") or {}).get("status", {}).get("used"))
    return f"{path}/q"


def test_a_full_quota_of_jobs_is_waited_for_with_a_growing_delay(on_cluster: OnCluster) -> None:
    quota, request = full(on_cluster), on_cluster.work()
    told: list[tuple[str, float]] = []

    class Waits(Watcher):
        def waiting(self, why: str, delay_s: float) -> None:
            told.append((why, delay_s))
            if len(told) == 1:
                attempt = Attempt(on_cluster.store, request.address, 1)
                assert on_cluster.launcher().why_waiting(attempt).reason == "job_quota"
                other = replace(on_cluster.place().execution(), lease_s=0.0)
                assert other._lives(attempt), "another process would have begun a second attempt"
            if len(told) == 3:
                on_cluster.api().delete(quota)

    assert on_cluster.place().execution().run(request, actor="a", observer=Waits()).attempts == 1
    assert [delay_s for _, delay_s in told] == [5.0, 10.0, 20.0]
    assert "exceeded quota: q" in told[0][0]


def test_a_quota_that_the_cluster_has_not_counted_yet_is_waited_for_as_a_full_one_is() -> None:
    class Uncounted(Api):
        def create(self, path: str, body: Object) -> Object:
            said = 'jobs.batch "a" is forbidden: status unknown for quota: q, resources: count/jobs.batch'
            raise ApiRefusal(403, "Forbidden", said)

    with pytest.raises(NoRoomYet, match="status unknown for quota: q"):
        create_job(Uncounted(client=None), "ft-acme", {"metadata": {"name": "a"}})


def test_work_that_waits_for_a_quota_can_be_cancelled_and_does_not_wait_for_ever(on_cluster: OnCluster) -> None:
    full(on_cluster)
    request = on_cluster.work()
    thread, got = in_thread(lambda: on_cluster.place().execution().run(request, actor="a"))
    until(lambda: Attempt(on_cluster.store, request.address, 1).wait())
    assert on_cluster.place().execution().cancel(request.address, actor="ann")
    thread.join()
    assert "ann cancelled it before it started" in str(got[0])
    with pytest.raises(WorkFailed, match="its pods took longer to start than allowed: the quota of namespace"):
        on_cluster.place(queue_timeout_s=0.1).execution().run(request, actor="a")


def test_an_api_server_that_cannot_answer_for_a_moment_is_asked_again(on_cluster: OnCluster) -> None:
    for code in (429, 500, 503):
        on_cluster.access.machines.answer(code, times=2)
    place = on_cluster.place(api=on_cluster.api(sleep=lambda _: None))
    assert place.execution().run(on_cluster.work(), actor="a").attempts == 1


def test_a_restart_of_the_api_server_and_broken_watches_harm_nobody(on_cluster: OnCluster) -> None:
    """The new server has no history, so a watch goes on from 410 Gone."""
    machines = on_cluster.access.machines
    thread, got, _, watcher = on_cluster.start(on_cluster.work(held=1))
    machines.server.break_watches()
    until(lambda: machines.server.watches)
    machines.answer(410, "watch=true")
    machines.restart_api_server()
    until(lambda: machines.server.watches)
    let_go(on_cluster.store)
    thread.join()
    assert got[0].artifact.facts == {"attempt": 1}
    assert watcher.retries == 0


def test_an_api_server_that_is_away_is_no_evidence_of_an_end(
    on_cluster: OnCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_resources.launchers.kubernetes._FIRST_ANSWER_S", 0.1)
    request = on_cluster.work(held=1)
    thread, _, attempt, _ = on_cluster.start(request)
    fresh = on_cluster.launcher(api=on_cluster.api(patience_s=0.0))
    on_cluster.access.machines.answer(503, times=1000)
    assert fresh.state(attempt) is LaunchState.RUNNING
    on_cluster.access.machines.server.faults.clear()
    on_cluster.place().execution().cancel(request.address, actor="a")
    thread.join()


def test_a_waiting_run_has_one_watch_and_asks_nothing_else_however_often_it_looks(on_cluster: OnCluster) -> None:
    launcher, attempt = on_cluster.launched(on_cluster.work(held=1))
    on_cluster.place().begun(on_cluster.work(held=1))
    requests = on_cluster.access.machines.server.requests
    # Once its pod is ready and told to be, nothing about it is unclear.
    until(lambda: (on_cluster.job(attempt) or {})["status"].get("ready") == 1)
    launcher.state(attempt)
    until(lambda: any("watch=true" in line for _, line in list(requests)))
    before = len(requests)
    for _ in range(100):
        assert launcher.state(attempt) is LaunchState.RUNNING
    assert list(requests)[before:] == []
    assert sum("watch=true" in line for _, line in requests) == 1
    launcher.stop(attempt, 20.0)
