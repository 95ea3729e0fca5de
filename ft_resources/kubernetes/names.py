"""Names and labels of a Job, derived from the attempt alone, so that the Job can be found from it."""

from ft_resources.artifacts import Address
from ft_resources.canonical import sha256_bytes

MANAGED_BY = "ft-platform"
PREFIX = "ft.platform"
TENANT = f"{PREFIX}/tenant"
ASSET = f"{PREFIX}/asset"
FINGERPRINT = f"{PREFIX}/fingerprint"
ATTEMPT = f"{PREFIX}/attempt"
JOB = f"{PREFIX}/job"
ADDRESS = f"{PREFIX}/address"
LABEL = f"{PREFIX}/label"
STORE = f"{PREFIX}/store"
CAPACITY = f"{PREFIX}/capacity"
JUDGES = f"{PREFIX}/judges"
KEPT_UNTIL = f"{PREFIX}/kept-until"
WAITS_SINCE = f"{PREFIX}/waits-since"
GPU_SIZES = f"{PREFIX}/gpu-sizes"
QUEUE = "kueue.x-k8s.io/queue-name"
PRIORITY = "kueue.x-k8s.io/priority-class"
TOPOLOGY_PREFERRED = "kueue.x-k8s.io/podset-preferred-topology"
TOPOLOGY_REQUIRED = "kueue.x-k8s.io/podset-required-topology"
ANYWHERE = "kueue.x-k8s.io/podset-unconstrained-topology"
JOB_INDEX = "batch.kubernetes.io/job-completion-index"
MANAGED = f"app.kubernetes.io/managed-by={MANAGED_BY}"
"""Selects all Jobs of the platform."""

METRICS_PORT = 9464
"""Where a training serves its figures for Prometheus."""

_FINGERPRINT = 20
_MAX_LABEL = 63


def job_name(address: Address, attempt: int) -> str:
    """The Job of an attempt, such as ``ft-eval-report-0123456789abcdef0123-0001``: DNS-1123, at most 50 characters.

    A pod's host name appends the index and still fits 63 characters.
    """
    asset = address.asset.replace("_", "-")[:16].strip("-")
    return f"ft-{asset}-{address.fingerprint[:_FINGERPRINT]}-{attempt:04d}"


def of_job(name: str) -> dict[str, str]:
    """The query that selects a Job's pods."""
    return {"labelSelector": f"{JOB}={name}"}


def store_label(store_url: str) -> str:
    """Label value that separates this store's Jobs from another platform's on the same cluster."""
    return sha256_bytes(store_url.encode())[:16]


def job_labels(address: Address, attempt: int) -> dict[str, str]:
    """Labels that identify the Job. Label values hold 63 characters, one less than a fingerprint."""
    return {
        "app.kubernetes.io/name": "ft-worker",
        "app.kubernetes.io/managed-by": MANAGED_BY,
        TENANT: address.tenant,
        ASSET: address.asset,
        FINGERPRINT: address.fingerprint[:_MAX_LABEL],
        ATTEMPT: str(attempt),
        JOB: job_name(address, attempt),
    }
