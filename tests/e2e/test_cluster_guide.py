"""docs/start/cluster.md as a platform engineer follows it, on the test cluster, an S3 server and a real PostgreSQL.

Real are kubectl, Helm's rendering, psql, pg_dump, jq, curl and every ``ft``. Workers are pods, with Kueue's rules.
Dagster and the API are processes beside the cluster, which runs no Deployments, and the embedded server answers in the
place of vLLM. ``ELSEWHERE`` of the guide names what is left out.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
import yaml

from ft_assets.records.submissions import SubmissionStatus, all_submissions, find_outcome
from ft_resources.store_marker import open_store
from tests.cluster.cluster import Cluster
from tests.cluster.objects import CONFIG_MAPS, DEPLOYMENTS, JOBS, NODES
from tests.e2e.cluster_guide.guide import Guide
from tests.e2e.dagster_server import LONG_S, DagsterServer, dagster_server, free_port, wait_for
from tests.e2e.ft_serve import ft_serve
from tests.e2e.project import Project
from tests.fake_base import make_fake_base
from tests.k8s.chart import instance_config, values
from tests.k8s.helm import HELM, copy_chart
from tests.k8s.programs import program
from tests.postgres import own_postgres
from tests.s3_server import ENVIRONMENT, s3_server
from tests.warm_workers import environment

pytestmark = [
    pytest.mark.e2e,
    # What its steps do is tried one by one in tests/k8s and tests/cluster.
    pytest.mark.long,
    pytest.mark.timeout(3600),
    pytest.mark.helm,
    pytest.mark.kubectl,
    pytest.mark.jq,
]
# What step 0 leaves to the reader.
OWN = {
    "REGION": "eu-central-1",
    "KUBECTL": program("kubectl") or "",
    "HELM": HELM or "",
    "CONTROL": f"sha256:{'c' * 64}",
    "DIGEST": f"sha256:{'d' * 64}",
    "VLLM": f"sha256:{'e' * 64}",
}


@dataclass(frozen=True, kw_only=True)
class World:
    guide: Guide
    cluster: Cluster
    project: Project
    database: int
    api: str

    def dagster_yaml(self) -> None:
        """The instance of the chart's values, where runs are processes and not pods."""
        found = values()
        found["postgresql"] |= {"postgresqlHost": "127.0.0.1", "postgresqlParams": {}}
        found["postgresql"]["service"] = {"port": self.database}
        logs = found["computeLogManager"]["config"]["s3ComputeLogManager"]
        logs |= {"bucket": self.guide.value("BUCKET"), "localDir": str(self.project.folder / "compute-logs")}
        logs |= {"endpointUrl": os.environ["AWS_ENDPOINT_URL"]}
        storage = found["additionalInstanceConfig"]["local_artifact_storage"]["config"]
        storage["base_dir"] = str(self.project.folder / "artifacts")
        config = instance_config(found)
        del config["run_launcher"]
        (self.project.folder / "dagster.yaml").write_text(yaml.safe_dump(config))

    def served(self) -> AbstractContextManager[str]:
        """``ft serve``, as the pods of the API run it, but with a server of models of its own."""
        return ft_serve(self.project, "--embedded", "1", port=int(self.api.rpartition(":")[2]))


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """An empty cluster: two GPU nodes that are kept, two that the cloud may take, and one without GPUs."""
    cluster = Cluster(nodes=0)
    for name, gpus in {"a": 8, "b": 8, "spot-a": 8, "spot-b": 8, "c": 0}.items():
        product = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"} if gpus else {}
        cluster.add_node(name, gpus, labels=product)
    # kubectl sends no token without TLS.
    cluster.server.tokens[""] = None
    home = tmp_path / "home"
    home.mkdir()
    with s3_server() as endpoint, own_postgres() as (server, database):
        api = f"http://127.0.0.1:{free_port()}"
        at = f"postgresql://dagster@127.0.0.1:{database.port}"
        ours = {
            **ENVIRONMENT, **OWN, "AWS_ENDPOINT_URL": endpoint, "AWS_REGION": OWN["REGION"],
            "AWS_DEFAULT_REGION": OWN["REGION"], "FT_LAUNCHER": "kubernetes",
            "KUBECONFIG": str(cluster.kubeconfig()), "DB_PORT": str(database.port),
            "POSTGRES": str(server.bin_path), "CHART": str(copy_chart(tmp_path / "chart")), "API": api,
            "FT_ACCESS_DB": f"{at}/ft_access", "FT_METERING_DB": f"{at}/ft_metering", "DAGSTER_PG_PASSWORD": "secret",
            "FT_STATE": str(home / "state"), "FT_CACHE": str(home / "cache"), "FT_TRACKING": "off",
            "FT_SENSOR_SECONDS": "3", "DAGSTER_HOME": str(home), "FT_ACTOR": "ann", "OMP_NUM_THREADS": "1",
            "FT_KUBERNETES": str(tmp_path / "reader/my-platform/kubernetes.yaml"),
            "FT_TENANTS": str(tmp_path / "reader/my-platform/tenants.yaml"), **environment(),
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip
        for name, value in ours.items():
            monkeypatch.setenv(name, value)
        (tmp_path / "reader").mkdir()
        guide = Guide(tmp_path / "reader", dict(os.environ))
        project = Project(folder=home, store_url="s3://my-ft-bucket/root")
        yield World(guide=guide, cluster=cluster, project=project, database=database.port, api=api)
    cluster.close()


def test_a_platform_engineer_goes_from_an_empty_cluster_to_a_served_adapter_and_back_from_its_loss(
    world: World, tmp_path: Path
) -> None:
    guide, cluster = world.guide, world.cluster
    install(world)
    with world.served():
        tenants(world)
        listed = json.loads(guide.step(8))
        assert listed["data"] == []
        with dagster_server(world.project, looks=["queue", "orphans", "metering"]) as dagster:
            fine_tune(world, dagster, make_fake_base(tmp_path / "base", context=512))
        assert "staging" in guide.step(11)
        assert "acme.tickets.first" in guide.step(12, block=1)
        answer = ask(world)
    assert "vllm-qwen" in {each["metadata"]["name"] for each in cluster.objects.list(DEPLOYMENTS)}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "monitoring"}}
    guide.run(f"kubectl apply -f - <<< '{json.dumps(namespace)}'")
    guide.step(13)
    dashboards = cluster.objects.get(CONFIG_MAPS, "monitoring", "ft-dashboards")["data"]
    assert len(dashboards) == 4
    assert guide.run("ft plan $MINE") == ""
    lose_and_restore(world)
    with world.served():
        assert ask(world) == answer
    assert guide.left == set()


def install(world: World) -> None:
    """Steps 0 to 7, up to the release."""
    guide, cluster = world.guide, world.cluster
    guide.step(0, ('SPOT=""', 'SPOT="spot-a spot-b"'))
    guide.step(1)
    nodes = {each["metadata"]["name"]: each for each in cluster.objects.list(NODES)}
    assert nodes["spot-a"]["metadata"]["labels"]["ft.platform/capacity"] == "spot"
    assert {each["key"] for each in nodes["spot-a"]["spec"]["taints"]} == {"nvidia.com/gpu", "ft.platform/spot"}
    assert "taints" not in nodes["c"]["spec"]
    guide.step(3)
    own_store(guide)
    guide.step(4)
    guide.step(5)
    guide.run("openssl req -x509 -newkey rsa:2048 -nodes -subj /CN=$HOST -keyout key.pem -out fullchain.pem")
    guide.step(6)
    assert "premium" in guide.step(7, block=0)
    world.dagster_yaml()


def tenants(world: World) -> None:
    """The end of step 7, and the store's keys, which stand for the tokens of real workers."""
    guide = world.guide
    assert "+ Namespace ft-acme" in guide.step(7, block=1)
    assert guide.run("ft plan $MINE") == ""
    for namespace in ("ft-acme", "ft-shared"):
        guide.run(
            f"kubectl -n {namespace} create secret generic ft-store "
            "--from-literal=AWS_ACCESS_KEY_ID=test --from-literal=AWS_SECRET_ACCESS_KEY=test"
        )


def own_store(guide: Guide) -> None:
    """Workers get to the S3 server by keys: no token of theirs would be believed there."""
    file = guide.folder / "my-platform/kubernetes.yaml"
    said: dict[str, Any] = yaml.safe_load(file.read_text())
    del said["identity"]
    names = ("AWS_ENDPOINT_URL", "AWS_REGION", "OMP_NUM_THREADS")
    said |= {"secret": "ft-store", "environment": {name: os.environ[name] for name in names}}
    file.write_text(yaml.safe_dump(said))


def fine_tune(world: World, dagster: DagsterServer, base: Path) -> None:
    """Steps 9 and 10, on a base that needs no Hub and no GPU."""
    guide = world.guide
    guide.step(
        9, ("base: $MODEL", f"base: folder:{base}"), ("hardware: {gpus: 1, gpu_type: H100}", "hardware: {gpus: 0}")
    )
    store = open_store(world.project.store_url)
    (submission,) = all_submissions(store, "acme")
    assert submission.id == guide.value("SUBMISSION")
    outcome = wait_for(lambda: find_outcome(store, submission), LONG_S, "the verdict")
    assert outcome.status is SubmissionStatus.ACCEPTED, outcome.reason
    assert "accepted" in guide.step(10)
    done = {each["metadata"]["namespace"] for each in world.cluster.objects.list(JOBS)}
    assert done == {"ft-acme", "ft-shared"}
    assert dagster.partition_counts("adapter")["materialized"] == 1


def lose_and_restore(world: World) -> None:
    """Step 14. Its last command fails where the answers differ."""
    guide, bucket = world.guide, boto3.resource("s3").Bucket("my-ft-bucket")
    guide.step(14, block=0)
    guide.step(14, block=1)
    assert list(bucket.objects.filter(Prefix="root/")) == []
    assert "materializations added: 0" not in guide.step(14, block=2)
    with world.project.instance() as instance:
        assert instance.get_dynamic_partitions("dataset") == ["acme.tickets.v1"]
        assert instance.get_dynamic_partitions("recipe") == ["first.v1"]


def ask(world: World) -> str:
    """The end of step 12, once the line is served: what the adapter of step 11 says."""
    key = {"authorization": f"Bearer {world.guide.value('FT_API_KEY')}"}
    asked = {"model": "acme.tickets.first@staging", "messages": [{"role": "user", "content": "?"}], "max_tokens": 1}

    def served() -> bool:
        answer = httpx.post(
            f"{world.api}/v1/chat/completions", json=asked, headers=key, timeout=LONG_S, trust_env=False
        )
        return answer.status_code == 200

    wait_for(served, LONG_S, "the adapter on a server of models")
    answer = json.loads(world.guide.step(12, block=2))
    text: str = answer["choices"][0]["message"]["content"]
    assert answer["model"].startswith("acme.tickets.first")
    return text
