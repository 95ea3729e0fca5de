"""The orphans sensor beside workers that write nonsense and namespaces that refuse: no Job holds up the others."""

import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
import pytest

from ft_assets.api.orphans import settle_orphans
from ft_resources.artifacts import Address
from ft_resources.attempts import PLACE, Attempt
from ft_resources.dagster_resources import LauncherResource, StoreResource
from ft_resources.jobs import Job
from ft_resources.kubernetes.api import ApiRefusal
from ft_resources.kubernetes.job_plan import plan_pod
from ft_resources.kubernetes.manifests import job as job_manifest
from ft_resources.kubernetes.queue import job_of
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.outcomes import Outcome, Refund
from ft_resources.store import Store
from ft_resources.store_marker import open_store
from ft_sensors.orphans import orphans_sensor
from tests.resources.kubernetes.specs import settings_of, spec_of
from tests.sensors.conftest import sentence


@dataclass
class Cluster(KubernetesLauncher):
    """Jobs that run, and what became of them; some may not be removed."""

    found: list[Job]
    refused: set[int] = field(default_factory=set)
    discarded: list[tuple[int, Refund]] = field(default_factory=list)
    cleaned: list[int] = field(default_factory=list)

    @property
    def remote(self) -> "Cluster":
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


def tick(store: Store, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> str:
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
    cluster = Cluster(found=[odd, over, ended])
    assert tick(store, cluster, monkeypatch) == "checked 3 Jobs: 3 that no run waits for"
    assert cluster.discarded == [(1, "none"), (2, "full")]
    assert cluster.cleaned == [3]
    store.put(f"{attempt_of_job(store, ended).path}/{PLACE}", content)
    assert tick(store, Cluster(found=[ended]), monkeypatch) == "checked 1 Jobs: 0 that no run waits for"


def test_a_namespace_that_refuses_keeps_no_other_job_alive(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = [job(1), job(2)]
    for each in jobs:
        close_long_ago(store, each)
    cluster = Cluster(found=jobs, refused={1})
    assert "2 that no run waits for" in tick(store, cluster, monkeypatch)
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
    standings = settle_orphans(Cluster(found=jobs), most=0, store=store, actor="t").said
    assert standings == "checked 32 Jobs: 32 that no run waits for"
