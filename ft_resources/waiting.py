"""Why a launched worker does not run yet."""

from dataclasses import dataclass
from typing import Literal

Reason = Literal[
    "running", "ended", "queue_name", "queue_missing", "too_large", "quota", "priority", "preempted", "flavour",
    "taint", "topology", "provisioning", "pods_not_ready", "job_quota", "held", "unschedulable", "pods_refused",
    "image", "volume", "starting", "kueue_silent", "gone",
]  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """Why work is not running: a category, a sentence, what to do (empty: wait), and the launcher's own words."""

    reason: Reason
    what: str
    remedy: str = ""
    said: str = ""
