"""The calls to MLflow, made from the mirror's thread; MLflow is imported by the first call."""

import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from ft_resources.artifacts import Artifact
from ft_resources.dotted import leaves

RunStatus = Literal["FINISHED", "FAILED", "KILLED"]
ADDRESS, MARKS, FINGERPRINT = "ft.address", "ft.marks", "ft.fingerprint"
_SQLITE = "sqlite:///"
# With this tag MLflow's UI nests a run below another.
_PARENT = "mlflow.parentRunId"
# Tables are made and migrated by one process at a time, behind a lock of MLflow's, and not in this process: alembic has
# one context for all threads, and Dagster migrates by it too. The address may have a password, so it is no argument.
_MAKE_TABLES = """
import sys
from mlflow.store.db import utils
utils._safe_initialize_tables(utils.create_sqlalchemy_engine_with_retry(sys.stdin.read()))
"""
# Limits of one log_batch call, and the longest texts that all of MLflow's databases accept.
_MAX_METRICS, _MAX_PARAMS, _MAX_TEXT = 1000, 100, 5000


@dataclass(frozen=True, kw_only=True)
class Standing:
    """A line's state after ``seq`` decisions: the fingerprint of each alias ("" for none), and tags by fingerprint."""

    seq: int
    aliases: Mapping[str, str]
    tags: Mapping[str, Mapping[str, str]]


class MlflowServer:
    """The server or database at ``uri``. Methods block, and raise whatever MLflow raises."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._runs: dict[str, str] = {}

    @cached_property
    def _client(self) -> Any:
        # No telemetry, few retries (the defaults take minutes), and no log output about database migrations.
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
        os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "10")
        os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
        logging.getLogger("alembic").setLevel(logging.WARNING)
        if self._uri.startswith(_SQLITE):
            Path(self._uri.removeprefix(_SQLITE)).parent.mkdir(parents=True, exist_ok=True)
        from mlflow.tracking import MlflowClient

        make_tables(self._uri)
        return MlflowClient(self._uri, self._uri)

    def start(self, address: str, name: str, params: Mapping[str, Any], tags: Mapping[str, str]) -> None:
        """The run of the work at ``address``: found and set to running again, or created."""
        from mlflow.entities import Param

        run = self._find_run(address)
        if run is not None:
            if run.info.status in ("FAILED", "KILLED"):
                self._client.update_run(run.info.run_id, status="RUNNING")
            return
        experiment = self._experiment(address.split("/")[0])
        run = self._client.create_run(experiment, run_name=name, tags={**tags, ADDRESS: address})
        self._runs[address] = run.info.run_id
        settled = [Param(key, _text(value)[:_MAX_TEXT]) for key, value in leaves(params)]
        for start in range(0, len(settled), _MAX_PARAMS):
            self._client.log_batch(run.info.run_id, params=settled[start : start + _MAX_PARAMS])

    def log_steps(self, address: str, rows: Sequence[Mapping[str, Any]]) -> None:
        """Log points above the run's marks; ``rows`` have ``step``, ``at`` (seconds since the epoch) and numbers.

        MLflow does not deduplicate points, and a reader that re-attaches, or a training that resumes, sends points
        again. So the last step of each metric is stored as a tag of the run, in the same call. One mark for all metrics
        would lose the validation loss, whose row follows the training loss of the same step.
        """
        from mlflow.entities import Metric, RunTag

        run_id = self._runs[address]
        marks: dict[str, int] = json.loads(self._client.get_run(run_id).data.tags.get(MARKS, "{}"))
        fresh = []
        for row in rows:
            at = int(row.get("at", 0.0) * 1000)
            for name, value in row.items():
                if name in ("step", "at") or isinstance(value, bool) or not isinstance(value, int | float):
                    continue
                if row["step"] > marks.get(name, -1):
                    marks[name] = row["step"]
                    fresh.append((Metric(name, float(value), at, row["step"]), json.dumps(marks)))
        for start in range(0, len(fresh), _MAX_METRICS):
            part = fresh[start : start + _MAX_METRICS]
            self._client.log_batch(run_id, metrics=[point for point, _ in part], tags=[RunTag(MARKS, part[-1][1])])

    def finish(self, address: str, status: RunStatus) -> None:
        """End the run at this time; a finished run stays as it is."""
        if self._client.get_run(self._runs[address]).info.status == "FINISHED":
            return
        self._client.set_terminated(self._runs[address], status)

    def tag(self, address: str, tags: Mapping[str, str]) -> None:
        """Set tags of the run of the work at ``address``, if there is one."""
        run = self._find_run(address)
        if run is None:
            return
        for key, value in tags.items():
            self._client.set_tag(run.info.run_id, key, value[:_MAX_TEXT])

    def group(self, address: str, name: str, tags: Mapping[str, str], members: Sequence[str]) -> None:
        """Create the run of ``address``, which has no work of its own, and nest the members' runs below it."""
        self.start(address, name, {}, tags)
        for member in members:
            self.tag(member, {_PARENT: self._runs[address]})
        self.finish(address, "FINISHED")

    def register(self, artifact: Artifact, tags: Mapping[str, str], card: str) -> None:
        """The version of the adapter's line (``facts["line"]``) with its fingerprint, created if missing."""
        from mlflow.exceptions import MlflowException

        line, fingerprint = str(artifact.facts["line"]), artifact.address.fingerprint
        try:
            self._client.create_registered_model(line, description=f"Accepted adapters of {line}")
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":
                raise
        if self._client.search_model_versions(f"name = '{line}' and tags.`{FINGERPRINT}` = '{fingerprint}'"):
            return
        run = self._find_run(artifact.manifest.inputs["checkpoint"].address)
        self._client.create_model_version(
            line,
            source=artifact.store.url_of(f"{artifact.address}/{artifact.manifest.writer}"),
            run_id=run.info.run_id if run else None,
            tags={**{key: value[:_MAX_TEXT] for key, value in tags.items()}, FINGERPRINT: fingerprint},
            description=card if len(card) <= _MAX_TEXT else f"{card[: _MAX_TEXT - 30]}\n… (see README.md)",
            await_creation_for=0,
        )

    def stand(self, line: str, standing: Standing) -> None:
        """Set tags and aliases of the versions of ``line``; an alias without a version is removed."""
        from mlflow.exceptions import MlflowException

        try:
            present = set(self._client.get_registered_model(line).aliases)
        except MlflowException as error:
            if error.error_code == "RESOURCE_DOES_NOT_EXIST":
                return
            raise
        versions = {
            version.tags[FINGERPRINT]: version.version
            for version in self._client.search_model_versions(f"name = '{line}'")
            if FINGERPRINT in version.tags
        }
        for fingerprint, tags in standing.tags.items():
            for key, value in tags.items() if fingerprint in versions else ():
                self._client.set_model_version_tag(line, versions[fingerprint], key, value[:_MAX_TEXT])
        wanted = {alias: versions[each] for alias, each in standing.aliases.items() if each in versions}
        for alias, version in wanted.items():
            self._client.set_registered_model_alias(line, alias, version)
        for alias in standing.aliases.keys() & present - wanted.keys():
            self._client.delete_registered_model_alias(line, alias)

    def _find_run(self, address: str) -> Any | None:
        experiment = self._experiment(address.split("/")[0])
        runs = self._client.search_runs(
            [experiment], f"tags.`{ADDRESS}` = '{address}'", order_by=["attributes.start_time ASC"], max_results=1
        )
        if not runs:
            return None
        self._runs[address] = runs[0].info.run_id
        return runs[0]

    def _experiment(self, tenant: str) -> str:
        """The id of the tenant's experiment; another process may create it at the same time."""
        from mlflow.exceptions import MlflowException

        found = self._client.get_experiment_by_name(tenant)
        if found is None:
            location = None
            if self._uri.startswith(_SQLITE):
                location = (Path(self._uri.removeprefix(_SQLITE)).parent / "mlflow-artifacts" / tenant).as_uri()
            try:
                self._client.create_experiment(tenant, artifact_location=location)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            found = self._client.get_experiment_by_name(tenant)
        experiment_id: str = found.experiment_id
        return experiment_id


def make_tables(uri: str) -> None:
    """The tables of MLflow in the database at ``uri``, if it is one and has none. Two may call at once."""
    from mlflow.store.db import utils
    from mlflow.store.db.db_types import DATABASE_ENGINES

    if re.split(r"[+:]", uri)[0] not in DATABASE_ENGINES:
        return
    engine = utils.create_sqlalchemy_engine_with_retry(uri)
    try:
        if utils._get_schema_version(engine) == utils._get_latest_schema_revision():
            return
    finally:
        engine.dispose()
    made = subprocess.run([sys.executable, "-c", _MAKE_TABLES], check=False, input=uri, capture_output=True, text=True)
    if made.returncode:
        raise RuntimeError(f"its tables could not be made: {made.stderr.strip()[-300:]}")


def _text(value: Any) -> str:
    """Text unchanged, all else as JSON."""
    return value if isinstance(value, str) else json.dumps(value)
