"""A training over several pods, as real processes: they find each other by the headless Service's names, train over
gloo, and one of them publishes."""

import json
import socket
from pathlib import Path

import pytest

from ft_resources.attempts import attempts_at
from ft_resources.execution import Execution
from ft_resources.kubernetes import pod
from ft_resources.launchers.kubernetes import KubernetesLauncher
from tests.resources.launchers.conftest import OnCluster

pytestmark = pytest.mark.cluster


def free_port() -> int:
    with socket.create_server(("", 0)) as server:
        return int(server.getsockname()[1])


def test_two_pods_train_one_model_and_publish_it_once(
    on_cluster: OnCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ft_assets.workers.training.data_ledger import check_ledger
    from tests.workers.training.conftest import make_bench

    _ = on_cluster.access.machines
    # A tenant of the test's own; and all pods of a test cluster share this machine's ports.
    monkeypatch.setattr(pod, "MASTER_PORT", free_port())
    bench = make_bench(tmp_path / "bench", tenant=on_cluster.tenant, epochs=1)
    bench.runtime |= {"nodes": 2, "processes": 1, "sharding": "none"}
    settings = on_cluster.settings(memory_gib=8.0, environment={"OMP_NUM_THREADS": "1"})
    launcher = KubernetesLauncher(settings, on_cluster.api())
    result = Execution(store=bench.store, launcher=launcher, poll_s=0.2).run(bench.request, actor="a")

    (attempt,) = attempts_at(bench.store, bench.request.address)
    place = attempt.place()
    assert place is not None
    assert (result.attempts, place["nodes"], place["cause"], place["exit_code"]) == (1, 2, "worker", 0)
    # Each trained to the end: with one rank missing, no step is made.
    ended = [
        container["state"]["terminated"]["exitCode"]
        for each in place["evidence"]["pods"]
        for container in each["containers"]
        if container["name"] == pod.WORKER
    ]
    assert ended == [0, 0]
    # One of them spoke and published: one folder of files, each example once in the ledger, a row for each step.
    writers = bench.store.folders(str(bench.request.address))
    assert len([name for name in writers if name.startswith("w0001-")]) == 1
    ledger = result.artifact.read("ledger.jsonl").decode().splitlines()
    assert check_ledger(ledger, bench.pack, bench.order) == []
    steps = [json.loads(line)["step"] for _, data in attempt.chunks("steps", 0) for line in data.splitlines()]
    assert list(dict.fromkeys(steps)) == list(range(1, bench.order.steps + 1))
    assert result.artifact.facts["steps"] == bench.order.steps
    # The other's log is kept beside, and has nothing to complain of.
    other = bench.store.get(f"{attempt.path}/nodes/01.txt").decode()
    assert "Traceback" not in other
