"""An elastic training on a cluster: it changes its size twice at saves, and its adapter has the bytes of one that never
did."""

from dataclasses import replace
from pathlib import Path

import pytest

from ft_assets.workers.training.data_ledger import check_ledger
from ft_resources.artifacts import Artifacts
from ft_resources.attempts import attempts_at
from ft_resources.execution import Execution
from ft_resources.launchers.kubernetes import KubernetesLauncher
from ft_resources.launchers.local import LocalLauncher
from ft_resources.outcomes import Outcome
from ft_resources.work import Resources
from tests.cluster.fixtures import Access, cluster, until
from tests.e2e.dagster_server import LONG_S
from tests.resources.launchers.conftest import OnCluster
from tests.resources.small_work import in_thread
from tests.workers.training.conftest import Bench, make_bench

__all__ = ["cluster"]
# The sizes that work takes: resources/kubernetes/test_elastic.py; the bytes: workers/training/test_context.py.
pytestmark = [pytest.mark.cluster, pytest.mark.training, pytest.mark.long]


def elastic(folder: Path, tenant: str, *, processes: int, epochs: int) -> Bench:
    bench = make_bench(folder, tenant=tenant, epochs=epochs, global_batch_size=4, micro_batch_size=1)
    bench.runtime |= {"processes": processes, "virtual_ranks": 4, "checkpoint_every_steps": 20}
    return bench


@pytest.mark.timeout(3600)
def test_an_adapter_whose_training_changed_its_size_has_the_bytes_of_one_that_did_not(
    cluster: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ft_resources.kubernetes.elastic._SETTLED_S", 0.0)
    monkeypatch.setattr("ft_resources.kubernetes.elastic._WORTH_S", 0.0)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    bench = elastic(tmp_path / "elastic", cluster.namespace.removeprefix("ft-"), processes=4, epochs=60)
    on_cluster = OnCluster(cluster, bench.store)
    levels = cluster.priorities(low=1, high=2)
    settings = on_cluster.settings(
        queue=cluster.queue(gpus=4),
        priority_classes={"batch": levels["low"], "production": levels["high"]},
        priority="batch",
        ageing=None,
        environment={"OMP_NUM_THREADS": "1"},
    )
    launcher = KubernetesLauncher(settings, on_cluster.api(), look_every_s=0.5)

    def other(name: str, gpus: int, level: str) -> None:
        labels = {"kueue.x-k8s.io/queue-name": settings.queue_of("") or "", "kueue.x-k8s.io/priority-class": level}
        cluster.run(name, "import time; time.sleep(600)", gpus=gpus, labels=labels, suspend=True)

    sizes = Resources(gpus=4, gpu_sizes=(4, 2, 1))
    request = replace(bench.request, resources=sizes)
    other("first", 2, levels["low"])
    cluster.running("first")
    thread, got = in_thread(lambda: Execution(store=bench.store, launcher=launcher, poll_s=0.1).run(request, actor="a"))

    def trains(number: int) -> bool:
        attempts = attempts_at(bench.store, request.address)
        return len(attempts) == number and attempts[-1].progress().get("done", 0) > 0

    until(lambda: trains(1), within_s=LONG_S)
    cluster.batch.delete_namespaced_job("first", cluster.namespace, propagation_policy="Foreground")
    assert launcher.queue is not None
    until(lambda: "another number" in launcher.queue.age(bench.store)[0])  # type: ignore[union-attr]
    until(lambda: trains(2), within_s=LONG_S)
    # Work of a higher priority takes its place, and leaves a part of it.
    other("second", 3, levels["high"])
    thread.join()
    cluster.batch.delete_namespaced_job("second", cluster.namespace, propagation_policy="Foreground")
    assert got[0].attempts == 3
    attempts = attempts_at(bench.store, request.address)
    assert [spec.resources.gpus for each in attempts if (spec := each.spec())] == [2, 4, 1]
    outcomes = [ending.outcome for each in attempts if (ending := each.ending())]
    assert outcomes == [Outcome.RESIZED, Outcome.PREEMPTED, Outcome.DONE]

    quiet = elastic(tmp_path / "quiet", on_cluster.tenant, processes=1, epochs=60)
    Execution(store=quiet.store, launcher=LocalLauncher()).run(quiet.request, actor="a")
    one, same = (Artifacts(each.store).get(each.request.address) for each in (bench, quiet))
    assert one.digest == same.digest
    assert check_ledger(one.read("ledger.jsonl").decode().splitlines(), bench.pack, bench.order) == []
