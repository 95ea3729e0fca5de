"""A real Dagster webserver and daemon over a project, driven through GraphQL as the UI does."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tests.e2e.project import ROOT, Project

T = TypeVar("T")
# Of a machine that does other things too; nothing here is about speed.
LONG_S = 600
# Without these, no work goes on.
_WORK = {"submissions", "retraining", "run_failures"}


class DagsterServer:
    """Clicks in the UI, as GraphQL."""

    def __init__(self, port: int, process: subprocess.Popen[bytes], token: str = "") -> None:
        """``token``: of ``ft ui``, behind whose door the server is."""
        self.url = f"http://127.0.0.1:{port}"
        self.entrance = f"{self.url}/?token={token}"
        self._process = process
        self._headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}

    def answers(self) -> bool:
        """Whether the webserver is there."""
        try:
            return bool(self.query("{ version }"))
        except OSError:
            return False

    def query(self, text: str, **variables: Any) -> dict[str, Any]:
        body = json.dumps({"query": text, "variables": variables}).encode()
        request = urllib.request.Request(f"{self.url}/graphql", body, self._headers, method="POST")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=LONG_S) as response:
            answer = json.load(response)
        assert "errors" not in answer, answer["errors"]
        data: dict[str, Any] = answer["data"]
        return data

    def rest(self, *looks: str) -> None:
        """Turn off all sensors but those of the work and ``looks``, such as "notices": fifteen of them, looking every
        few seconds, take more of a processor than the work."""
        found = wait_for(
            lambda: self.query(
                """query($selector: RepositorySelector!) { sensorsOrError(repositorySelector: $selector) {
                     ... on Sensors { results { id name } } } }""",
                selector={"repositoryLocationName": "fine-tuning", "repositoryName": "__repository__"},
            )["sensorsOrError"].get("results"),
            LONG_S,
            "the sensors",
        )
        for sensor in found:
            if sensor["name"].removesuffix("_sensor") not in {*_WORK, *looks}:
                stopped = self.query("mutation($id: String) { stopSensor(id: $id) { __typename } }", id=sensor["id"])
                assert stopped["stopSensor"]["__typename"] == "StopSensorMutationResult", stopped

    def materialize(self, asset: Sequence[str], location: str) -> str:
        """Materialize an asset of another code location; the run's id."""
        selector = {"repositoryLocationName": location, "repositoryName": "__repository__", "jobName": "__ASSET_JOB"}
        return self._launch({"selector": {**selector, "assetSelection": [{"path": list(asset)}]}})

    def parents(self, asset: str) -> list[list[str]]:
        """The assets that the lineage draws directly above one."""
        node = self.query(
            """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) {
                 ... on AssetNode { dependencyKeys { path } } } }""",
            key={"path": [asset]},
        )["assetNodeOrError"]
        return [key["path"] for key in node["dependencyKeys"]]

    def launch(self, job: str, config: dict[str, Any]) -> str:
        """Launch a job with run config; the run's id."""
        selector = {"repositoryLocationName": "fine-tuning", "repositoryName": "__repository__", "jobName": job}
        return self._launch({"selector": selector, "runConfigData": json.dumps(config)})

    def _launch(self, params: dict[str, Any]) -> str:
        answer = self.query(
            """mutation($params: ExecutionParams!) { launchRun(executionParams: $params) {
                 __typename ... on LaunchRunSuccess { run { runId } } ... on PythonError { message } } }""",
            params=params,
        )["launchRun"]
        assert answer["__typename"] == "LaunchRunSuccess", answer
        run_id: str = answer["run"]["runId"]
        return run_id

    def backfill(self, assets: list[str], partitions: list[str]) -> str:
        """Materialize partitions of assets as the dialog over several partitions does; the backfill's id."""
        return self._backfill({"assetSelection": [{"path": [asset]} for asset in assets], "partitionNames": partitions})

    def _backfill(self, params: dict[str, Any]) -> str:
        answer = self.query(
            """mutation($params: LaunchBackfillParams!) { launchPartitionBackfill(backfillParams: $params) {
                 __typename ... on LaunchBackfillSuccess { backfillId } ... on PythonError { message } } }""",
            params=params,
        )["launchPartitionBackfill"]
        assert answer["__typename"] == "LaunchBackfillSuccess", answer
        backfill: str = answer["backfillId"]
        return backfill

    def backfill_by_assets(self, partitions: Mapping[str, Sequence[str]]) -> str:
        """Materialize partitions of each asset, of whatever partitioning; the backfill's id."""
        chosen = [
            {"assetKey": {"path": [asset]}, "partitions": {"ranges": [{"start": key, "end": key} for key in keys]}}
            for asset, keys in partitions.items()
        ]
        return self._backfill({"partitionsByAssets": chosen})

    def mappings(self, asset: str) -> dict[str, str]:
        """How an asset's partitions depend on those of each asset above it; "" where they are the same."""
        node = self.query(
            """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { dependencies {
                 asset { assetKey { path } } partitionMapping { className } } } } }""",
            key={"path": [asset]},
        )["assetNodeOrError"]
        return {
            each["asset"]["assetKey"]["path"][-1]: (each["partitionMapping"] or {}).get("className", "")
            for each in node["dependencies"]
        }

    def dimensions(self, asset: str) -> dict[str, list[str]]:
        """The rows and columns of the grid on an asset's partition page."""
        node = self.query(
            """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode {
                 partitionKeysByDimension { name partitionKeys } } } }""",
            key={"path": [asset]},
        )["assetNodeOrError"]
        return {each["name"]: sorted(each["partitionKeys"]) for each in node["partitionKeysByDimension"]}

    def preview(self, assets: Sequence[str], partitions: Sequence[str]) -> dict[str, list[str]]:
        """What a backfill from partitions of the first asset reaches of the others."""
        found = self.query(
            """query($params: AssetBackfillPreviewParams!) { assetBackfillPreview(params: $params) {
                 assetKey { path } partitions { partitionKeys } } }""",
            params={"assetSelection": [{"path": [each]} for each in assets], "partitionNames": list(partitions)},
        )["assetBackfillPreview"]
        return {each["assetKey"]["path"][-1]: sorted(each["partitions"]["partitionKeys"] or []) for each in found}

    def backfill_status(self, backfill: str) -> str:
        """Such as ``COMPLETED_SUCCESS``; empty while the webserver knows nothing of it."""
        found = self.query(
            "query($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }",
            id=backfill,
        )["partitionBackfillOrError"]
        return str(found.get("status", ""))

    def partition_counts(self, asset: str) -> dict[str, int]:
        """What the asset's page counts: partitions that are listed, materialized, failed."""
        found = self.query(
            """query($key: AssetKeyInput!) { assetNodeOrError(assetKey: $key) { ... on AssetNode { partitionStats {
                 numPartitions numMaterialized numFailed } } } }""",
            key={"path": [asset]},
        )["assetNodeOrError"]["partitionStats"]
        return {name.removeprefix("num").lower(): count for name, count in found.items()}

    def stale_statuses(self, asset: str, partitions: list[str]) -> list[str]:
        """Of each partition, what its tag in the lineage says, such as ``FRESH``."""
        found = self.query(
            """query($key: AssetKeyInput!, $partitions: [String!]!) { assetNodeOrError(assetKey: $key) {
                 ... on AssetNode { staleStatusByPartition(partitions: $partitions) } } }""",
            key={"path": [asset]},
            partitions=partitions,
        )["assetNodeOrError"]["staleStatusByPartition"]
        return [str(each) for each in found]

    def add_partition(self, definition: str, key: str) -> None:
        """What "Add a partition" does."""
        selector = {"repositoryLocationName": "fine-tuning", "repositoryName": "__repository__"}
        answer = self.query(
            """mutation($selector: RepositorySelector!, $definition: String!, $key: String!) {
                 addDynamicPartition(repositorySelector: $selector, partitionsDefName: $definition, partitionKey: $key)
                 { __typename } }""",
            selector=selector,
            definition=definition,
            key=key,
        )["addDynamicPartition"]
        assert answer["__typename"] == "AddDynamicPartitionSuccess", answer

    def terminate(self, run_id: str) -> None:
        """What the cancel button does."""
        answer = self.query("mutation($id: String!) { terminateRun(runId: $id) { __typename } }", id=run_id)[
            "terminateRun"
        ]
        assert answer["__typename"] == "TerminateRunSuccess", answer

    def kill(self) -> None:
        """End webserver, daemon, code server and run workers at once, as a power cut does; work goes on."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """What Ctrl-C does; a server that was killed is left alone."""
        if self._process.poll() is not None:
            return
        os.killpg(self._process.pid, signal.SIGTERM)
        try:
            self._process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self.kill()

    def runs(self) -> list[dict[str, Any]]:
        """All runs, newest first."""
        answer = self.query("{ runsOrError { ... on Runs { results { runId jobName status tags { key value } } } } }")
        results: list[dict[str, Any]] = answer["runsOrError"]["results"]
        return results

    def timeline(self) -> list[dict[str, Any]]:
        """The finished runs that the timeline of the overview asks for; it draws those with an origin."""
        answer = self.query(
            """query($filter: RunsFilter!) { runsOrError(filter: $filter) { ... on Runs { results {
                 id repositoryOrigin { repositoryName repositoryLocationName } } } } }""",
            filter={"statuses": ["SUCCESS", "FAILURE", "CANCELED"], "updatedAfter": 0.0, "updatedBefore": time.time()},
        )
        results: list[dict[str, Any]] = answer["runsOrError"]["results"]
        return results

    def runs_of(self, job: str) -> list[str]:
        """The ids of the runs on the page of a job."""
        answer = self.query(
            """query($params: PipelineSelector!) { pipelineOrError(params: $params) {
                 __typename ... on Pipeline { runs { id } } } }""",
            params={"repositoryLocationName": "fine-tuning", "repositoryName": "__repository__", "pipelineName": job},
        )["pipelineOrError"]
        assert answer["__typename"] == "Pipeline", answer
        return [run["id"] for run in answer["runs"]]


@contextmanager
def dagster_server(project: Project, *workspaces: Path, looks: Sequence[str] = ()) -> Iterator[DagsterServer]:
    """``dagster dev`` over the project, and the code locations of further workspaces, until the block ends.

    ``looks`` are the sensors that look beside those of the work.
    """
    port = free_port()
    log = (project.folder / "dagster-dev.log").open("ab")
    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "dagster",
            "dev",
            "-w",
            str(ROOT / "workspace.yaml"),
            *(part for each in workspaces for part in ("-w", str(each))),
            "-p",
            str(port),
            "-h",
            "127.0.0.1",
        ],
        env=project.environment,
        cwd=project.folder,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    server = DagsterServer(port, process)
    try:
        wait_for(server.answers, LONG_S, "the Dagster webserver")
        server.rest(*looks)
        yield server
    except BaseException:
        # What a failed test needs to be understood by.
        print(f"the end of the server's log:\n{tail(project.folder / 'dagster-dev.log')}")
        raise
    finally:
        server.stop()
        log.close()


def tail(log: Path, lines: int = 80) -> str:
    """The last lines of a log, without those of sensors that found nothing to do."""
    idle = ("nothing to do", "Checking for new runs")
    told = [line[:300] for line in log.read_text(errors="replace").splitlines() if not any(map(line.count, idle))]
    return "\n".join(told[-lines:])


def free_port() -> int:
    """A port of this machine that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def wait_for(condition: Callable[[], T], seconds: float, what: str, *, every_s: float = 0.5) -> T:
    """The first truthy value of ``condition``; fails after ``seconds``. What passes quickly is asked for more often."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(every_s)
    raise AssertionError(f"waited {seconds} s in vain for {what}")
