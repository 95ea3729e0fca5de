"""What Dagster's chart makes of our values: the part of its template for ``dagster.yaml`` that they use.

After helm/dagster/templates/configmap-instance.yaml of the chart, which no package of Python has. What is checked is
that every value has a place in the chart, and that the instance it leads to works.
"""

from pathlib import Path
from typing import Any

import yaml

K8S = Path(__file__).resolve().parents[2] / "k8s"
# A kubeconfig for a launcher that is made and asks no cluster.
NO_CLUSTER = {
    "current-context": "none",
    "clusters": [{"name": "none", "cluster": {"server": "http://127.0.0.1:1"}}],
    "users": [{"name": "none", "user": {}}],
    "contexts": [{"name": "none", "context": {"cluster": "none", "user": "none"}}],
}

# Keys that the chart's schema (values.schema.json of 1.13) knows, of the sections that we set. Of most it forbids
# others; of some it lets them through, and nobody reads them.
_POD = {"image", "env", "envConfigMaps", "envSecrets", "annotations", "nodeSelector", "affinity", "tolerations"}
_POD |= {"podSecurityContext", "securityContext", "resources", "livenessProbe", "readinessProbe", "startupProbe"}
_POD |= {"labels", "volumes", "volumeMounts", "schedulerName", "initContainerResources"}
_SERVER = _POD | {"deploymentLabels", "checkDbReadyInitContainer", "logFormat", "extraContainers"}
_SERVER |= {"extraPrependedInitContainers"}
_WORKERS = {"useThreads", "numWorkers", "numSubmitWorkers"}
KEYS: dict[tuple[str, ...], set[str]] = {
    (): {
        "global", "serviceAccount", "rbacEnabled", "generatePostgresqlPasswordSecret", "generateCeleryConfigSecret",
        "telemetry", "rabbitmq", "redis", "flower", "postgresql", "computeLogManager", "runLauncher",
        "dagster-user-deployments", "dagsterWebserver", "dagsterDaemon", "additionalInstanceConfig", "pythonLogs",
        "ingress", "imagePullSecrets", "scheduler", "busybox", "migrate", "retention", "concurrency",
        # For Helm, which asks it whether the chart is wanted at all.
        "enabled",
    },
    ("global",): {"postgresqlSecretName", "dagsterHome", "serviceAccountName", "celeryConfigSecretName"},
    ("postgresql",): {
        "enabled", "postgresqlHost", "postgresqlUsername", "postgresqlPassword", "postgresqlDatabase",
        "postgresqlParams", "postgresqlScheme", "service", "image",
    },
    ("computeLogManager", "config", "s3ComputeLogManager"): {
        "bucket", "localDir", "prefix", "useSsl", "verify", "verifyCertPath", "endpointUrl", "skipEmptyFiles",
        "uploadInterval", "uploadExtraArgs", "showUrlOnly", "region",
    },
    ("runLauncher", "config"): {"customRunLauncher"},
    ("runLauncher", "config", "customRunLauncher"): {"module", "class", "config"},
    ("runLauncher",): {"type", "config"},
    ("computeLogManager",): {"type", "config"},
    ("postgresql", "service"): {"port"},
    ("serviceAccount",): {"create", "name", "annotations"},
    ("dagsterWebserver",): _SERVER | {"replicaCount", "nameOverride", "pathPrefix", "service", "workspace",
                                      "enableReadOnly", "dbStatementTimeout", "dbPoolRecycle", "dbPoolMaxOverflow",
                                      "logLevel"},
    ("dagsterDaemon",): _SERVER | {"enabled", "runCoordinator", "heartbeatTolerance", "runMonitoring", "runRetries",
                                   "sensors", "schedules", "backfills"},
    ("dagsterDaemon", "image"): {"repository", "tag", "pullPolicy"},
    ("dagsterDaemon", "runCoordinator"): {"enabled", "type", "config"},
    ("dagsterDaemon", "runCoordinator", "config", "queuedRunCoordinator"): {
        "maxConcurrentRuns", "tagConcurrencyLimits", "dequeueIntervalSeconds", "dequeueNumWorkers",
        "dequeueUseThreads", "blockOpConcurrencyLimitedRuns",
    },
    ("dagsterDaemon", "runMonitoring"): {
        "enabled", "startTimeoutSeconds", "cancelTimeoutSeconds", "maxRuntimeSeconds", "maxResumeRunAttempts",
        "pollIntervalSeconds", "freeSlotsAfterRunEndSeconds",
    },
    ("dagsterDaemon", "runRetries"): {"enabled", "maxRetries", "retryOnAssetOrOpFailure"},
    ("dagsterDaemon", "sensors"): _WORKERS,
    ("dagsterDaemon", "schedules"): _WORKERS,
    # What the subchart's own values have besides is for it alone.
    ("dagster-user-deployments",): {"enabled", "enableSubchart", "imagePullSecrets", "deployments",
                                    "serviceAccount", "rbacEnabled"},
    ("dagster-user-deployments", "serviceAccount"): {"create", "name", "annotations"},
    ("dagster-user-deployments", "deployments", "0"): _POD | {
        "name", "dagsterApiGrpcArgs", "codeServerArgs", "includeConfigInLaunchedRuns", "port", "initContainers",
        "sidecarContainers", "service",
    },
}  # fmt: skip


def values() -> dict[str, Any]:
    """What our chart hands to Dagster's."""
    loaded = yaml.safe_load((K8S / "helm" / "ft-platform" / "values.yaml").read_text())["dagster"]
    assert isinstance(loaded, dict)
    return loaded


def at(tree: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        tree = tree[int(key)] if isinstance(tree, list) else tree[key]
    return tree


def instance_config(values: dict[str, Any]) -> dict[str, Any]:
    """The ``dagster.yaml`` that the chart writes for these values."""
    daemon, logs = values["dagsterDaemon"], values["computeLogManager"]["config"]["s3ComputeLogManager"]
    queue = daemon["runCoordinator"]["config"]["queuedRunCoordinator"]
    monitoring, retries = daemon["runMonitoring"], daemon["runRetries"]
    return {
        "run_storage": _postgres("run_storage", "PostgresRunStorage", values),
        "event_log_storage": _postgres("event_log", "PostgresEventLogStorage", values),
        "schedule_storage": _postgres("schedule_storage", "PostgresScheduleStorage", values),
        "scheduler": {"module": "dagster.core.scheduler", "class": "DagsterDaemonScheduler"},
        "run_launcher": values["runLauncher"]["config"]["customRunLauncher"],
        "run_coordinator": {
            "module": "dagster.core.run_coordinator",
            "class": "QueuedRunCoordinator",
            "config": {
                "max_concurrent_runs": queue["maxConcurrentRuns"],
                "tag_concurrency_limits": queue["tagConcurrencyLimits"],
            },
        },
        "compute_logs": {
            "module": "dagster_aws.s3.compute_log_manager",
            "class": "S3ComputeLogManager",
            "config": {
                "bucket": logs["bucket"],
                "prefix": logs["prefix"],
                "local_dir": logs["localDir"],
                "region": logs["region"],
                "upload_interval": logs["uploadInterval"],
                "skip_empty_files": logs["skipEmptyFiles"],
                "verify": True,
                **({"endpoint_url": logs["endpointUrl"]} if "endpointUrl" in logs else {}),
            },
        },
        "run_monitoring": {
            "enabled": monitoring["enabled"],
            "start_timeout_seconds": monitoring["startTimeoutSeconds"],
            "cancel_timeout_seconds": monitoring["cancelTimeoutSeconds"],
            "max_resume_run_attempts": monitoring["maxResumeRunAttempts"],
            "poll_interval_seconds": monitoring["pollIntervalSeconds"],
            "free_slots_after_run_end_seconds": monitoring["freeSlotsAfterRunEndSeconds"],
        },
        "run_retries": {
            "enabled": retries["enabled"],
            "max_retries": retries["maxRetries"],
            # Dagster's own default is to retry a run whatever it failed by.
            **(
                {"retry_on_asset_or_op_failure": retries["retryOnAssetOrOpFailure"]}
                if "retryOnAssetOrOpFailure" in retries
                else {}
            ),
        },
        "sensors": {"use_threads": True, "num_workers": daemon["sensors"]["numWorkers"]},
        "schedules": {"use_threads": True, "num_workers": daemon["schedules"]["numWorkers"]},
        "telemetry": {"enabled": values["telemetry"]["enabled"]},
        **values["additionalInstanceConfig"],
    }


def _postgres(module: str, name: str, values: dict[str, Any]) -> dict[str, Any]:
    postgres = values["postgresql"]
    database = {
        "username": postgres["postgresqlUsername"],
        "password": {"env": "DAGSTER_PG_PASSWORD"},
        "hostname": postgres["postgresqlHost"],
        "db_name": postgres["postgresqlDatabase"],
        "port": postgres["service"]["port"],
        "params": postgres["postgresqlParams"],
        "scheme": postgres["postgresqlScheme"],
    }
    return {"module": f"dagster_postgres.{module}", "class": name, "config": {"postgres_db": database}}
