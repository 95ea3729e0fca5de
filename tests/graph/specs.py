"""Every asset, check, job and sensor of the code location, as plain data; ``python -m tests.graph.specs`` rewrites the
snapshot, so that a reviewer sees a change of the graph in the diff."""

from pathlib import Path
from typing import Any

import dagster as dg
import yaml

from ft_assets.definitions import defs

SNAPSHOT = Path(__file__).with_name("specs.yaml")


def specs() -> dict[str, dict[str, Any]]:
    """Kind to name to what the definitions say of it."""
    assets = list(defs.resolve_all_asset_specs())
    graph = defs.resolve_asset_graph()
    checks = [graph.get_check_spec(key) for key in sorted(graph.asset_check_keys)]
    repository = defs.get_repository_def()
    jobs = [job for job in repository.get_all_jobs() if not job.name.startswith("__")]
    return {
        "assets": {spec.key.to_user_string(): _asset(spec) for spec in assets},
        "checks": {f"{spec.asset_key.to_user_string()}:{spec.name}": _check(spec) for spec in checks},
        "jobs": {job.name: _job(job) for job in jobs},
        "sensors": {sensor.name: _sensor(sensor) for sensor in repository.sensor_defs},
    }


def text() -> str:
    """The snapshot's text."""
    return yaml.safe_dump(specs(), sort_keys=True, width=110, allow_unicode=True)


def _asset(spec: dg.AssetSpec) -> dict[str, Any]:
    metadata = {key: value for key, value in spec.metadata.items() if not key.startswith("dagster/code")}
    columns = metadata.pop("dagster/column_schema", None)
    described = {"columns": [f"{each.name}: {each.type}" for each in columns.columns]} if columns else {}
    return {
        "code_version": spec.code_version,
        "deps": sorted(dep.asset_key.to_user_string() for dep in spec.deps),
        "description": spec.description,
        "group": spec.group_name,
        "kinds": sorted(spec.kinds),
        "metadata": sorted(metadata),
        "owners": sorted(spec.owners),
        "partitions": _partitions(spec.partitions_def),
        "tags": {key: value for key, value in spec.tags.items() if not key.startswith("dagster/kind/")},
        **described,
    }


def _check(spec: dg.AssetCheckSpec) -> dict[str, Any]:
    return {
        "blocking": spec.blocking,
        "description": spec.description,
        "partitions": _partitions(spec.partitions_def),
    }


def _job(job: dg.JobDefinition) -> dict[str, Any]:
    chosen = job.asset_selection or job.asset_layer.selected_asset_keys
    return {
        "assets": sorted(key.to_user_string() for key in chosen),
        "description": job.description,
        "executor": job.executor_def.name,
        "ops": [] if chosen else sorted(node.name for node in job.nodes),
        "partitions": _partitions(job.partitions_def),
        "tags": dict(job.tags),
    }


def _sensor(sensor: dg.SensorDefinition) -> dict[str, Any]:
    return {
        "default_status": sensor.default_status.value,
        "description": sensor.description,
        "every_s": sensor.minimum_interval_seconds,
        "jobs": sorted(job.name for job in sensor.jobs) if sensor.has_jobs else [],
        "type": sensor.sensor_type.value,
    }


def _partitions(definition: dg.PartitionsDefinition | None) -> str:
    if isinstance(definition, dg.MultiPartitionsDefinition):
        return " x ".join(f"{each.name}" for each in definition.partitions_defs)
    return definition.name or "" if isinstance(definition, dg.DynamicPartitionsDefinition) else "none"


if __name__ == "__main__":
    SNAPSHOT.write_text(text(), encoding="utf-8")
