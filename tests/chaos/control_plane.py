"""Dagster as production has it: its database on a PostgreSQL, its runs in pods, a code server and a daemon.

The instance is that of the Helm values. Dagster's ``K8sRunLauncher`` starts runs as Jobs of the test cluster, where
the workers' Jobs are too; code server and daemon are processes that are started again when they die, as a Deployment's
are. In place of the chart's volumes and bucket there are folders of this machine.
"""

import base64
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import dagster as dg
import yaml

from ft_resources.attempts import Attempt
from ft_resources.kubernetes.names import job_name
from tests.cluster.cluster import Cluster
from tests.cluster.objects import JOBS, NAMESPACES, PODS, SECRETS, SERVICE_ACCOUNTS, Change
from tests.e2e.dagster_server import free_port, wait_for
from tests.e2e.project import Project, make_project
from tests.faults import tcp_cuts
from tests.k8s.chart import instance_config, values
from tests.k8s.locked import LOCKED
from tests.postgres import postgres_database
from tests.resources.kubernetes.specs import IMAGE

TENANT, SYSTEM = "acme", "ft-system"
_SMALL = {"image": IMAGE, "service_account": "default", "cpus": 0.5, "memory_gib": 4.0, "scratch_gib": 2.0}
_RESTARTED_AFTER_S = 1.0


class Kept:
    """A process that is started again when it dies, until it is ended."""

    def __init__(self, command: list[str], environment: dict[str, str], log: Path) -> None:
        self._command, self._environment, self._log = command, environment, log
        self._ending = threading.Event()
        self._process = self._start()
        self._thread = threading.Thread(target=self._keep, daemon=True)
        self._thread.start()

    def kill(self) -> None:
        """SIGKILL."""
        self._process.kill()

    def end(self) -> None:
        self._ending.set()
        # One may be starting just now.
        while self._thread.is_alive():
            self._process.kill()
            self._thread.join(timeout=0.2)

    def _start(self) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._command, env=self._environment, cwd=self._log.parent, stdout=log, stderr=subprocess.STDOUT
            )

    def _keep(self) -> None:
        self._process.wait()
        while not self._ending.wait(_RESTARTED_AFTER_S):
            self._process = self._start()
            self._process.wait()


class ControlPlane:
    """All that is there between a submission and its adapter. ``created`` has the name of each Job that was ever made,
    as often as it was."""

    def __init__(
        self, project: Project, cluster: Cluster, instance: dg.DagsterInstance, daemon: Kept, ledger_url: str
    ) -> None:
        self.project, self.store, self.cluster = project, project.store, cluster
        self.instance, self.daemon, self.ledger_url = instance, daemon, ledger_url
        self.created: list[str] = []
        cluster.objects.listeners.append(self._listen)

    def kill_run_worker(self, run_id: str) -> None:
        """SIGKILL to the process that executes a run, in the run's own pod."""
        self.cluster.kill_processes(SYSTEM, self._pod(SYSTEM, "dagster/run-id", run_id))

    def held(self, attempt: Attempt) -> AbstractContextManager[None]:
        """The attempt's pod stands still until the block ends, so that what happens meanwhile meets it at work."""
        namespace = f"ft-{TENANT}"
        return self.cluster.held(namespace, self._pod(namespace, "job-name", job_name(attempt.address, attempt.number)))

    def _pod(self, namespace: str, label: str, value: str) -> str:
        (pod,) = self.cluster.objects.list(PODS, namespace, lambda pod: pod["metadata"]["labels"][label] == value)
        return str(pod["metadata"]["name"])

    def _listen(self, change: Change) -> None:
        if change.kind is JOBS and change.type == "ADDED":
            self.created.append(change.object["metadata"]["name"])


@contextmanager
def control_plane(folder: Path, prepare: Callable[[Project, dg.DagsterInstance], None]) -> Iterator[ControlPlane]:
    """A control plane that is up, with a project of its own. ``prepare`` may run jobs in this process, which use
    workers of this machine: before, as run monitoring fails what the run launcher did not start."""
    with ExitStack() as stack:
        project = make_project(folder / "project")
        cluster = stack.enter_context(closing(Cluster(nodes=1, kueue=False, image={"OMP_NUM_THREADS": "1"})))
        databases = [urlparse(stack.enter_context(postgres_database())) for _ in range(2)]
        server = Path(parse_qs(databases[0].query)["host"][0]) / ".s.PGSQL.5432"
        port = stack.enter_context(tcp_cuts(server)).port
        ledger = f"postgresql://postgres@127.0.0.1:{port}{databases[1].path}"
        here = {**project.environment, "DAGSTER_PG_PASSWORD": "unused", "FT_METERING_DB": ledger}
        here |= {"FT_TENANTS": str(folder / "tenants.yaml"), "FT_SENSOR_SECONDS": "2"}
        (folder / "tenants.yaml").write_text(f"tenants: {{{TENANT}: {{}}}}\n")
        (folder / "kubernetes.yaml").write_text(json.dumps(_SMALL))
        there = {"FT_LAUNCHER": "kubernetes", "FT_KUBERNETES": str(folder / "kubernetes.yaml")}
        there |= {"KUBECONFIG": str(cluster.kubeconfig())}
        # Code server, daemon and run pods are of the control plane's image, in which there is no more to import.
        there |= LOCKED
        # Of this process's own environment, pods have what their image has.
        pods = {name: value for name, value in {**here, **there}.items() if os.environ.get(name) != value}
        _make_system(cluster, pods)
        config = _instance_config(folder, cluster, port, databases[0].path.strip("/"))
        (project.folder / "dagster.yaml").write_text(yaml.safe_dump(config))
        before = dict(os.environ)
        stack.callback(lambda: (os.environ.clear(), os.environ.update(before)))
        os.environ.update(here)
        instance = stack.enter_context(dg.DagsterInstance.from_config(str(project.folder)))
        prepare(project, instance)
        daemon = _start(stack, folder, {**here, **there})
        yield ControlPlane(project, cluster, instance, daemon, ledger)


def _instance_config(folder: Path, cluster: Cluster, port: int, database: str) -> dict[str, Any]:
    """The instance of the values, where addresses are other ones and the daemon looks more often."""
    found = values()
    found["postgresql"] |= {"postgresqlHost": "127.0.0.1", "postgresqlUsername": "postgres"}
    found["postgresql"] |= {"postgresqlDatabase": database, "postgresqlParams": {}, "service": {"port": port}}
    launcher = found["runLauncher"]["config"]["customRunLauncher"]["config"]
    launcher |= {"load_incluster_config": False, "kubeconfig_file": str(cluster.kubeconfig())}
    launcher |= {"env_config_maps": [], "volumes": [], "volume_mounts": []}
    # The test cluster has indexed Jobs alone.
    launcher["run_k8s_config"]["job_spec_config"] |= {"completionMode": "Indexed", "completions": 1}
    found["dagsterDaemon"]["runMonitoring"]["pollIntervalSeconds"] = 2
    found["additionalInstanceConfig"]["local_artifact_storage"]["config"]["base_dir"] = str(folder / "artifacts")
    config = instance_config(found)
    config["run_coordinator"]["config"]["dequeue_interval_seconds"] = 1
    config["compute_logs"] = {
        "module": "dagster.core.storage.local_compute_log_manager",
        "class": "LocalComputeLogManager",
        "config": {"base_dir": str(folder / "compute-logs")},
    }
    return config


def _make_system(cluster: Cluster, environment: dict[str, str]) -> None:
    """What an administrator makes before the first run: namespaces, an account, secrets."""
    for namespace in (SYSTEM, f"ft-{TENANT}", "ft-shared"):
        cluster.objects.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    cluster.objects.create(SERVICE_ACCOUNTS, SYSTEM, {"metadata": {"name": "ft-control-plane"}})
    for name, secret in {"ft-secrets": environment, "ft-postgresql": {"postgresql-password": "unused"}}.items():
        data = {key: base64.b64encode(value.encode()).decode() for key, value in secret.items()}
        cluster.objects.create(SECRETS, SYSTEM, {"metadata": {"name": name}, "data": data})


def _start(stack: ExitStack, folder: Path, environment: dict[str, str]) -> Kept:
    """Start code server and daemon, and wait for the former; the daemon."""
    port = free_port()
    at = {"host": "127.0.0.1", "port": port, "location_name": "fine-tuning"}
    (folder / "workspace.yaml").write_text(yaml.safe_dump({"load_from": [{"grpc_server": at}]}))
    serve = ["-m", "dagster", "api", "grpc", "-m", "ft_assets.definitions", "-h", "127.0.0.1", "-p", str(port)]
    image = {**environment, "DAGSTER_CURRENT_IMAGE": IMAGE}
    code_server = Kept([sys.executable, *serve], image, folder / "code-server.log")
    stack.callback(code_server.end)
    wait_for(lambda: _listens(port), 300, "the code server")
    run = [str(Path(sys.executable).with_name("dagster-daemon")), "run", "-w", str(folder / "workspace.yaml")]
    daemon = Kept(run, environment, folder / "daemon.log")
    stack.callback(daemon.end)
    return daemon


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
