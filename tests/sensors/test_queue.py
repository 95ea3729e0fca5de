"""Sensors beside a cluster: its queue, Jobs that no run waits for; and none without a store."""

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.api.orphans import settle_orphans
from ft_assets.control.notices.queue_alerts import queue_event
from ft_assets.control.submissions import status
from ft_assets.control.submissions.works import read_works
from ft_assets.definitions import defs
from ft_assets.records.due_notices import markers, read_markers
from ft_assets.records.submissions import Submission, SubmissionStatus, finish
from ft_resources.artifacts import Address
from ft_resources.attempts import PLACE, Attempt
from ft_resources.dagster_resources import HubResource, LauncherResource, StoreResource
from ft_resources.errors import ClusterUnavailable
from ft_resources.jobs import Job
from ft_resources.kubernetes.api import ApiRefusal
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import job as job_manifest
from ft_resources.kubernetes.queue import job_of
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.outcomes import Outcome, Refund
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_resources.waiting import Waiting
from ft_sensors.orphans import orphans_sensor
from ft_sensors.queue import queue_sensor
from tests.e2e.project import Project
from tests.made import submitted
from tests.resources.kubernetes.specs import settings_of, spec_of
from tests.sensors.conftest import add_version, register, say, sentence


def tick(project: Project, instance: dg.DagsterInstance) -> str:
    return say(project, instance, queue_sensor, launcher=LauncherResource())


def limit(project: Project, minutes: float) -> None:
    (project.folder / "tenants.yaml").write_text(
        f"tiers: {{premium: {{max_wait_minutes: {minutes}}}}}\ntenants: {{acme: {{tier: premium}}}}\n"
    )


def test_a_wait_beyond_the_tiers_limit_is_a_breach_until_it_ends(project, instance) -> None:
    assert tick(project, instance) == "no tier has max_wait_minutes"
    register(project)
    limit(project, 60.0)
    submission = submitted(project.store, add_version(project))
    assert tick(project, instance) == "premium: 1 wait"
    limit(project, 0.000001)
    assert tick(project, instance) == "premium: 1 wait, breach"
    assert tick(project, instance) == "premium: 1 wait"
    told = len(markers(project.store))
    finish(project.store, submission, SubmissionStatus.CANCELLED, reason="no more")
    assert tick(project, instance) == "premium: 0 wait, recovered"
    assert tick(project, instance) == "premium: 0 wait"
    assert told == 1


class Cluster:
    """A launcher that says why something waits, or does not."""

    def __init__(self, problem: Exception | None = None) -> None:
        self.problem, self.asked = problem, list[str]()
        self.explains = self

    def why_waiting(self, attempt: Attempt) -> Waiting:
        self.asked.append(attempt.address.asset)
        if self.problem:
            raise self.problem
        return Waiting(reason="quota", what="the quota of its queue is in use", said="insufficient\nunused quota")


def queued(project: Project, monkeypatch: pytest.MonkeyPatch) -> Submission:
    """A submission whose first work has a Job that nothing is heard of."""
    monkeypatch.setattr(status, "LEASE_S", -1.0)
    register(project)
    limit(project, 0.000001)
    submission = submitted(project.store, add_version(project))
    work = read_works(project.store, submission)[0]
    Attempt(project.store, work.address, 1).claim("a")
    return submission


def details(project: Project) -> tuple[str, ...]:
    (due,) = read_markers(project.store, markers(project.store), [])
    return queue_event(project.store, due).details


def test_a_breach_says_why_work_waits_where_the_cluster_can_tell(project, instance, monkeypatch) -> None:
    cluster = Cluster()
    monkeypatch.setattr(LauncherResource, "launcher", cluster)
    submission = queued(project, monkeypatch)
    assert tick(project, instance) == "premium: 1 wait, breach"
    reason = "the quota of its queue is in use (insufficient unused quota)"
    assert details(project) == (f"{submission.id}: dataset: {reason}",)
    # The cluster is asked when a breach is told, and not while it lasts.
    assert tick(project, instance) == "premium: 1 wait"
    assert cluster.asked == ["dataset"]


@pytest.mark.parametrize(
    "problem", [ClusterUnavailable("no answer", where="API", remedy=""), ApiRefusal(403, "Forbidden", "no events")]
)
def test_a_cluster_that_does_not_say_keeps_no_breach_from_being_told(project, instance, monkeypatch, problem) -> None:
    monkeypatch.setattr(LauncherResource, "launcher", Cluster(problem))
    submission = queued(project, monkeypatch)
    assert tick(project, instance) == "premium: 1 wait, breach"
    assert details(project) == (submission.id,)


@dataclass
class Namespace(KubernetesLauncher):
    """Jobs that run, and what became of them; some may not be removed."""

    found: list[Job]
    refused: set[int] = field(default_factory=set)
    discarded: list[tuple[int, Refund]] = field(default_factory=list)
    cleaned: list[int] = field(default_factory=list)

    @property
    def remote(self) -> "Namespace":
        return self

    def jobs(self, store_url: str) -> list[Job]:
        return self.found

    def discard(self, attempt: Attempt, refund: Refund) -> None:
        if attempt.number in self.refused:
            raise ApiRefusal(403, "Forbidden", "jobs is forbidden")
        self.discarded.append((attempt.number, refund))

    def clean_up(self, attempt: Attempt) -> None:
        self.cleaned.append(attempt.number)


def job(number: int, *, ended: bool = False) -> Job:
    made = job_manifest(plan_pod(spec_of(attempt=number), settings_of()))
    born = datetime.now(UTC) - timedelta(hours=1)
    made["metadata"] |= {"uid": str(number), "creationTimestamp": born.isoformat()}
    made["status"] = {"conditions": [{"type": "Failed", "status": "True"}]} if ended else {}
    return job_of(made)


def attempt_of_job(store: Store, job: Job) -> Attempt:
    return Attempt(store, Address.parse(job.address), job.attempt)


def settle(store: Store, cluster: Namespace, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("FT_LAUNCHER", "kubernetes")
    monkeypatch.setattr(LauncherResource, "launcher", property(lambda _: cluster))
    with dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance=instance)
        skip = orphans_sensor(context, store=StoreResource(url=store.url), launcher=LauncherResource(kind="kubernetes"))
    return sentence(skip)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path / "store"), create=True)


def close_long_ago(store: Store, job: Job) -> None:
    path = attempt_of_job(store, job).path
    store.put_json(f"{path}/outcome.json", {"outcome": Outcome.PLATFORM_ERROR, "error": None, "at": 1.0})


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"outcome": "won"}', b'{"outcome": "done", "at": 1e300}'])
def test_a_worker_that_writes_nonsense_about_its_end_keeps_no_job_and_shields_no_other(
    store: Store, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    """Its run fails by that record, and the usage that cannot be counted would go on for days."""
    odd, over, ended = job(1), job(2), job(3, ended=True)
    store.put(f"{attempt_of_job(store, odd).path}/outcome.json", content)
    store.put(f"{attempt_of_job(store, ended).path}/outcome.json", content)
    close_long_ago(store, over)
    cluster = Namespace(found=[odd, over, ended])
    assert settle(store, cluster, monkeypatch) == "checked 3 Jobs: 3 that no run waits for"
    assert cluster.discarded == [(1, "none"), (2, "full")]
    assert cluster.cleaned == [3]
    store.put(f"{attempt_of_job(store, ended).path}/{PLACE}", content)
    assert settle(store, Namespace(found=[ended]), monkeypatch) == "checked 1 Jobs: 0 that no run waits for"


def test_a_namespace_that_refuses_keeps_no_other_job_alive(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [job(1), job(2)]
    for each in jobs:
        close_long_ago(store, each)
    cluster = Namespace(found=jobs, refused={1})
    assert "2 that no run waits for" in settle(store, cluster, monkeypatch)
    assert cluster.discarded == [(2, "full")]


def test_a_full_queue_is_looked_at_in_a_tick_however_slow_the_store(store, monkeypatch) -> None:
    """A bucket answers in some 20 ms, and a tick that takes a minute is ended by Dagster."""
    meet, find = threading.Barrier(8), Store.find_json

    def slow(self: Store, path: str) -> object:
        if path.endswith("/outcome.json"):
            meet.wait(timeout=600.0)
        return find(self, path)

    jobs = [job(number) for number in range(1, 33)]
    for each in jobs:
        close_long_ago(store, each)
    monkeypatch.setattr(Store, "find_json", slow)
    standings = settle_orphans(Namespace(found=jobs), most=0, store=store, actor="t").said
    assert standings == "checked 32 Jobs: 32 that no run waits for"


# The ageing sensor reads no store where the launcher has no queue.
NAMES = sorted({sensor.name for sensor in defs.sensors or []} - {"ageing_sensor"})


@pytest.mark.parametrize("name", NAMES)
def test_a_sensor_without_a_store_skips_with_the_reason(name, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("FT_TENANTS", raising=False)
    monkeypatch.chdir(tmp_path)
    sensor = defs.resolve_sensor_def(name)
    given = {
        "store": StoreResource(url=str(tmp_path / "mount" / "store")),
        "launcher": LauncherResource(),
        "hub": HubResource(),
    }
    wanted = {key: value for key, value in given.items() if key in sensor.required_resource_keys}
    with dg.DagsterInstance.ephemeral() as instance:
        found = sensor(dg.build_sensor_context(instance=instance), **wanted)
    assert "there is no store here" in (found.skip_message or "")
    assert not (tmp_path / "mount").exists()
