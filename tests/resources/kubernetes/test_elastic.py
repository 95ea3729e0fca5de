"""How many GPUs an elastic training gets and is asked to change to, by what the cluster shows."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from ft_resources.attempts import Attempt
from ft_resources.errors import ClusterUnavailable, LauncherRefusal, WorkFailed
from ft_resources.kubernetes.attempt_plan import past_of, plan_attempt
from ft_resources.kubernetes.elastic import Elastic
from ft_resources.kubernetes.manifests import job as job_manifest
from ft_resources.kubernetes.objects import Object
from ft_resources.kubernetes.settings import KubernetesSettings
from ft_resources.store import Store
from ft_resources.work import WorkSpec
from tests.resources.kubernetes.specs import settings_of, spec_of

NOW = 1_800_000_000.0
GPU = "nvidia.com/gpu"
SIZES = (8, 4, 2)


class Cluster:
    """The API of a cluster with one ClusterQueue, which has all of a flavour's GPUs."""

    def __init__(self, gpus: int = 8, used: int = 0, **spec: Any) -> None:
        quota = {"name": GPU, "nominalQuota": str(gpus)}
        groups = [{"coveredResources": [GPU], "flavors": [{"name": "h100", "resources": [quota]}]}]
        reserved = [{"name": "h100", "resources": [{"name": GPU, "total": str(used)}]}]
        self.queue: Object = {
            "metadata": {"name": "all"},
            "spec": {"resourceGroups": groups, **spec},
            "status": {"flavorsReservation": reserved, "pendingWorkloads": 0},
        }
        self.local: Object | None = {"spec": {"clusterQueue": "all"}}
        self.flavours: list[Object] = [{"metadata": {"name": "h100"}, "spec": {}}]
        self.workloads: list[Object] = []
        self.pods: list[Object] = []
        self.removed: list[str] = []
        self.problem: Exception | None = None

    def get(self, path: str) -> Object | None:
        return self.local if "localqueues" in path else {"versions": [{"version": "v1beta2"}]}

    def items(self, path: str, query: Mapping[str, str], *, patient: bool = True) -> Sequence[Object]:
        if self.problem:
            raise self.problem
        kind = path.rpartition("/")[2]
        return {
            "clusterqueues": [self.queue],
            "cohorts": [],
            "resourceflavors": self.flavours,
            "workloads": self.workloads,
            "pods": self.pods,
        }[kind]

    def delete(self, path: str, **options: Any) -> None:
        if self.problem:
            raise self.problem
        self.removed.append(path.rpartition("/")[2])

    def elastic(self, settings: KubernetesSettings, *, later_s: float = 0.0) -> Elastic:
        return Elastic(settings, self, lambda: NOW + later_s)  # type: ignore[arg-type]


def settings(**changes: Any) -> KubernetesSettings:
    return settings_of(queue="ft-{tenant}", **changes)


def spec(store: Store, gpus: int = 8, tenant: str = "acme", attempt: int = 1, **resources: Any) -> WorkSpec:
    asked = {"gpu_sizes": SIZES, **resources}
    return spec_of(store_url=store.url, layout=store.layout, tenant=tenant, attempt=attempt, gpus=gpus, **asked)


def attempt_of(store: Store, found: WorkSpec) -> Attempt:
    return Attempt(store, found.address, found.attempt)


def launched(store: Store, found: WorkSpec, under: KubernetesSettings, *, ago_s: float, runs: bool = False) -> Object:
    """The Job of an attempt, which waits in its queue or trains for so long."""
    attempt = attempt_of(store, found)
    attempt.claim("ann")
    attempt.write_spec(found)
    if runs:
        beat = {"phase": "training", "at": NOW, "done": 10, "total": 1000, "eta_s": 7200.0}
        store.put_json(f"{attempt.path}/progress.json", beat)
    job = job_manifest(plan_attempt(found, attempt, under))
    moment = datetime.fromtimestamp(NOW - ago_s, UTC).isoformat()
    job["metadata"] |= {"creationTimestamp": moment, "uid": f"uid-{found.address.tenant}"}
    job["spec"]["suspend"] = not runs
    job["status"] = {"startTime": moment, "ready": 1, "active": 1} if runs else {}
    return job


def asked(attempt: Attempt) -> int | None:
    return (attempt.store.find_json(f"{attempt.path}/stop.json") or {}).get("gpus")


def test_a_queue_that_does_not_exist_has_no_room_and_stops_nobody_elses_turn(store: Store) -> None:
    cluster, under, found = Cluster(), settings(), spec(store)
    cluster.local = None
    assert cluster.elastic(under).gpus_now(found, attempt_of(store, found)) == 2
    assert cluster.elastic(under).resize(store, [launched(store, found, under, ago_s=300.0)]) == 0
    cluster.local = {"spec": {"clusterQueue": "removed"}}
    assert cluster.elastic(under).gpus_now(found, attempt_of(store, found)) == 2


def test_one_whose_gpus_the_settings_no_longer_name_stops_nobody_elses_turn(store: Store) -> None:
    before, now = settings(gpu_types={"A100": {}}), settings()
    gone, other = spec(store, tenant="ant", gpu_type="A100"), spec(store, tenant="bee")
    found = [launched(store, gone, before, ago_s=400.0), launched(store, other, now, ago_s=300.0)]
    assert Cluster(gpus=8, used=4).elastic(now).resize(store, found) == 1
    assert (asked(attempt_of(store, gone)), asked(attempt_of(store, other))) == (None, 4)


def test_a_job_that_could_not_be_removed_is_removed_at_the_next_look(store: Store) -> None:
    cluster, under, found = Cluster(gpus=8, used=4), settings(), spec(store)
    job = launched(store, found, under, ago_s=300.0)
    cluster.delete = _unavailable  # type: ignore[method-assign]
    with pytest.raises(ClusterUnavailable):
        cluster.elastic(under).resize(store, [job])
    assert asked(attempt_of(store, found)) == 4
    again = Cluster(gpus=8, used=4)
    assert again.elastic(under).resize(store, [job]) == 0
    assert again.removed == [job["metadata"]["name"]]


def _unavailable(path: str, **options: Any) -> None:
    raise ClusterUnavailable("no answer")


def test_one_that_trains_is_not_removed_when_it_is_asked_to_end(store: Store) -> None:
    cluster, under, found = Cluster(used=4), settings(), spec(store, gpus=4)
    job = launched(store, found, under, ago_s=900.0, runs=True)
    attempt_of(store, found).request_resize(8)
    assert cluster.elastic(under).resize(store, [job]) == 0
    assert cluster.removed == []


def test_one_that_waits_keeps_its_place_when_there_is_room_for_more(store: Store) -> None:
    cluster, under, found = Cluster(gpus=8), settings(), spec(store, gpus=2)
    assert cluster.elastic(under).resize(store, [launched(store, found, under, ago_s=9e3)]) == 0
    assert cluster.removed == []


def test_one_that_waits_in_vain_for_room_that_is_there_takes_half_and_does_not_try_again_at_once(store: Store) -> None:
    cluster, under, found = Cluster(gpus=8), settings(), spec(store)
    job, attempt = launched(store, found, under, ago_s=0.0), attempt_of(store, found)
    assert cluster.elastic(under, later_s=1100.0).resize(store, [job]) == 0
    assert cluster.elastic(under, later_s=1300.0).resize(store, [job]) == 1
    assert asked(attempt) == 4
    _given_up(attempt, after_s=1300.0)
    later = spec(store, gpus=4, attempt=2)
    assert cluster.elastic(under, later_s=1300.0).gpus_now(later, attempt_of(store, later)) == 4
    # Nor does it grow to what it could not have, and not for ever.
    running = launched(store, later, under, ago_s=900.0, runs=True)
    cluster.workloads = [_holding(4)]
    assert cluster.elastic(under, later_s=0.0).resize(store, [running]) == 0
    assert cluster.elastic(under, later_s=8 * 3600.0).gpus_now(later, attempt_of(store, later)) == 8


def test_one_whose_pods_find_no_node_takes_half(store: Store) -> None:
    cluster, under, found = Cluster(gpus=8, used=8), settings(), spec(store)
    job = launched(store, found, under, ago_s=9e3)
    admitted = datetime.fromtimestamp(NOW, UTC).isoformat()
    job["spec"]["suspend"], job["status"] = False, {"startTime": admitted, "active": 1}
    cluster.pods = [{"metadata": {"name": "p"}, "spec": {}}]
    assert cluster.elastic(under, later_s=1100.0).resize(store, [job]) == 0
    # One whose pods are on their nodes fetches a large base, perhaps.
    cluster.pods = [{"spec": {"nodeName": "n1"}}]
    assert cluster.elastic(under, later_s=1300.0).resize(store, [job]) == 0
    cluster.pods = [{"metadata": {"name": "p"}, "spec": {}}]
    assert cluster.elastic(under, later_s=1300.0).resize(store, [job]) == 1
    assert asked(attempt_of(store, found)) == 4
    assert cluster.removed == [job["metadata"]["name"]]


def _given_up(attempt: Attempt, *, after_s: float) -> None:
    """As if its request had been written by the cluster's clock."""
    path = f"{attempt.path}/stop.json"
    attempt.store.put_json(path, (attempt.store.find_json(path) or {}) | {"at": NOW + after_s})


def _holding(gpus: int) -> Object:
    usage = {GPU: str(gpus), "rdma/hca": "0"}
    return {"status": {"admission": {"podSetAssignments": [{"flavors": {GPU: "h100"}, "resourceUsage": usage}]}}}


def test_one_that_runs_on_fewer_grows_into_what_is_idle(store: Store) -> None:
    cluster, under, found = Cluster(gpus=8, used=4), settings(), spec(store, gpus=4)
    cluster.workloads = [_holding(4)]
    assert cluster.elastic(under).resize(store, [launched(store, found, under, ago_s=900.0, runs=True)]) == 1
    assert asked(attempt_of(store, found)) == 8
    assert cluster.removed == []


def test_each_of_many_has_its_turn(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ft_resources.kubernetes.elastic._LOOKS", 2)
    cluster, under = Cluster(gpus=8, used=4), settings()
    specs = [spec(store, gpus=2, tenant=f"a{number}") for number in range(4)] + [spec(store, tenant="last")]
    found = [launched(store, each, under, ago_s=1000.0 - place) for place, each in enumerate(specs)]
    for minute in range(3):
        cluster.elastic(under, later_s=60.0 * minute).resize(store, found)
    assert asked(attempt_of(store, specs[-1])) == 4


def test_flavours_of_other_resources_and_tolerations_that_flavours_give_are_kueues(store: Store) -> None:
    cluster, found = Cluster(gpus=8), spec(store, gpu_type="H100")
    under = settings(gpu_types={"H100": {"node_selector": {"gpu": "h100"}}})
    added = "2026-11-27T10:00:00Z"
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule", "timeAdded": added}
    labelled = {"nodeLabels": {"gpu": "h100"}, "nodeTaints": [taint]}
    cluster.flavours = [
        {"metadata": {"name": "h100"}, "spec": {**labelled, "tolerations": [{"operator": "Exists"}]}},
        {"metadata": {"name": "any"}, "spec": {}},
    ]
    quota = [{"name": "cpu", "nominalQuota": "1000"}, {"name": "memory", "nominalQuota": "9Ti"}]
    others = {"coveredResources": ["cpu", "memory"], "flavors": [{"name": "any", "resources": quota}]}
    cluster.queue["spec"]["resourceGroups"].append(others)
    assert cluster.elastic(under).gpus_now(found, attempt_of(store, found)) == 8
    cluster.flavours[0]["spec"]["tolerations"] = [{"key": "nvidia.com/gpu", "value": "absent"}]
    assert cluster.elastic(under).gpus_now(found, attempt_of(store, found)) == 2


def test_a_queue_that_may_not_be_read_is_told_to_who_can_change_that(store: Store) -> None:
    cluster, found = Cluster(), spec(store)
    cluster.problem = LauncherRefusal("clusterqueues is forbidden")
    with pytest.raises(WorkFailed, match="forbidden"):
        cluster.elastic(settings()).gpus_now(found, attempt_of(store, found))


def test_a_size_that_was_gone_is_taken_again_when_it_is_there(store: Store) -> None:
    cluster, under, found = Cluster(gpus=8, used=4), settings(), spec(store)
    assert cluster.elastic(under).resize(store, [launched(store, found, under, ago_s=9e3)]) == 1
    _given_up(attempt_of(store, found), after_s=0.0)
    later = spec(store, gpus=4, attempt=2)
    assert Cluster(gpus=8).elastic(under).gpus_now(later, attempt_of(store, later)) == 8


def test_each_earlier_attempt_is_read_once_however_many_sizes_there_are(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (1, 2):
        launched(store, spec(store, attempt=number), settings(), ago_s=0.0)
    read: list[int] = []
    place = Attempt.place
    monkeypatch.setattr(Attempt, "place", lambda attempt: read.append(attempt.number) or place(attempt))
    third = spec(store, attempt=3)
    assert Cluster(gpus=8, used=8).elastic(settings()).gpus_now(third, attempt_of(store, third)) == 2
    assert read == [1, 2]


def test_one_made_anew_at_another_size_keeps_the_age_of_all_its_jobs_that_only_waited(store: Store) -> None:
    for number in (1, 2, 3):
        attempt = attempt_of(store, spec(store, attempt=number))
        store.put_json(f"{attempt.path}/claim.json", {"actor": "ann", "at": NOW + number})
        attempt.request_resize(4)
        attempt.record_stopped()
    later = attempt_of(store, spec(store, attempt=4))
    assert past_of(later).waits_since == NOW + 1
    # One that ran has waited already.
    store.put_json(f"{attempt_of(store, spec(store, attempt=2)).path}/progress.json", {"at": NOW})
    assert past_of(later).waits_since == NOW + 3
    assert past_of(attempt_of(store, spec(store, attempt=3))).waits_since is None


def test_one_for_which_nodes_are_being_made_is_left_alone(store: Store) -> None:
    cluster, under, found = Cluster(gpus=8, used=4), settings(), spec(store)
    job = launched(store, found, under, ago_s=9e3)
    cluster.workloads = [_holding(8)]
    assert cluster.elastic(under).resize(store, [job]) == 0
    cluster.workloads = []
    assert cluster.elastic(under).resize(store, [job]) == 1
