"""``python -m benchmarks cluster [PART …]``: what running on a cluster costs, and whether faults leave it whole.

Everything runs on the cluster of ``tests/cluster``: a real API over HTTP and real processes, on this machine.
FT_CHAOS_RUNS is how many chaos runs there are (100).
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import cluster_admission, cluster_chaos, cluster_waiting, replay
from benchmarks.table import Figure


def measure(*parts: str) -> list[Figure]:
    """The figures of these parts, of all where none is named."""
    unknown = set(parts) - set(_PARTS)
    if unknown:
        raise SystemExit(f"no part {', '.join(sorted(unknown))}; there are {', '.join(_PARTS)}")
    return [figure for name, part in _PARTS.items() if name in parts or not parts for figure in part()]


def _admission() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="ft-admission-") as folder:
        slowest = cluster_admission.slowest_admission_s(Path(folder))
    return [_bound("admission_to_pod_s", "admission to pod, the slowest of 20, s", slowest, "< 1", 1.0)]


def _waiting() -> list[Figure]:
    with tempfile.TemporaryDirectory(prefix="ft-waiting-") as folder:
        cost = cluster_waiting.waiting_cost(Path(folder))
    around = f"beside {cluster_waiting.QUEUED} queued and {cluster_waiting.RUNNING} running Jobs"
    return [
        _bound("waiting_run_rss_mb", f"memory of a waiting run's process {around}, MB", cost.rss_mb, "< 250", 250.0),
        _bound("waiting_run_cpu_share", "CPU of that process, part of a core", cost.cpu_share, "<= 0.01", 0.0101),
        _bound(
            "waiting_run_requests_per_10s",
            "requests to the API beside its one watch, in 10 s",
            cost.requests_per_10s,
            "<= 1",
            1.01,
        ),
    ]


def _chaos() -> list[Figure]:
    runs = int(os.environ.get("FT_CHAOS_RUNS", cluster_chaos.RUNS))
    return cluster_chaos.figures(cluster_chaos.measure(runs), runs)


def _quotas() -> list[Figure]:
    found = float(replay.replay()["quota_violations"])
    return [_bound("quota_violations", "quotas broken in a replayed week of 1,000 submissions", found, "0", 0.5)]


def _bound(key: str, what: str, ours: float, goal: str, below: float) -> Figure:
    return Figure(key=key, what=what, ours=ours, peer=None, peer_is="", goal=goal, met=ours < below)


_PARTS: dict[str, Callable[[], list[Figure]]] = {
    "admission": _admission,
    "waiting": _waiting,
    "quotas": _quotas,
    "chaos": _chaos,
}
